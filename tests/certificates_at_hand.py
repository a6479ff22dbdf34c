"""Certificates that are checked as a reader gets them: from a file."""

from __future__ import annotations

from fedtheory.worst_cases import Certificate, certificate, load, verify, write


def from_file(found, folder, method=None):
    """The certificate of a result, or a certificate, written to a file, read from there and checked."""
    proof = found if isinstance(found, Certificate) else certificate(found)
    read = load(write(folder / "proof.json", proof))
    verify(read, method)
    return read
