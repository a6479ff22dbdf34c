"""Pictures beside a campaign's file may be anyone's: a page is written, soon, whatever they hold."""

from __future__ import annotations

import io
import struct
import time
import zlib

import pytest

from fedtheory.report.pictures import pictures


def png(width, height, *chunks):
    """A PNG that says it is of that size, and holds next to nothing."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = zlib.compress(bytes(height * (3 * width + 1)), 9) if width * height < 10**8 else b""
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunk(*c) for c in chunks) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


FILES = {
    "of billions of pixels": png(60_000, 60_000),
    "of many pixels": png(9_000, 9_000),
    "a text that unpacks to more": png(4, 4, (b"zTXt", b"a\0\0" + zlib.compress(bytes(2**25), 9))),
    "cut": png(4, 4)[:60],
    "no picture": b"<svg onload=alert(1)>",
    "empty": b"",
}
BESIDE = {
    "brackets": "[" * 200_000, "digits": "9" * 900_000, "a mark": "\ufeff{}", "a list": "[1]", "a number": '{"title": 1e999999999}',
    "titles": '{"title": ["a"], "caption": 3}',
}  # fmt: skip


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_picture_of_anyone(tmp_path, content):
    (tmp_path / "one.png").write_bytes(content)
    begun = time.process_time()
    [[found]] = pictures([tmp_path / "one.png"], []).values()
    assert time.process_time() - begun < 20 and found["data"].startswith("data:image/")


@pytest.mark.parametrize("text", BESIDE.values(), ids=BESIDE)
def test_what_lies_beside_a_picture(tmp_path, text):
    image = pytest.importorskip("PIL.Image")
    buffer = io.BytesIO()
    image.new("RGB", (4, 4)).save(buffer, "PNG")
    (tmp_path / "one.png").write_bytes(buffer.getvalue())
    (tmp_path / "one.json").write_text(text, encoding="utf-8")
    [[found]] = pictures([tmp_path / "one.png"], []).values()
    assert (found["title"], found["caption"], found["width"]) == ("One", "", 4)
