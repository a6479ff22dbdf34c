"""The repository's folder, for tests that read its documents or start a process in it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
