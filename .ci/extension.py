"""The browser extension as one file, the same bytes from the same sources; and its icons.

python .ci/extension.py           packs extension/ into dist/
python .ci/extension.py icons     draws extension/icons/ anew
"""

from __future__ import annotations

import json
import struct
import sys
import zipfile
import zlib
from math import hypot
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "extension"
TARGET = SOURCE.parent / "dist"
SIZES = (16, 32, 48, 128)
FINE = 4  # points to each side of a pixel


def pack(target: Path) -> Path:
    """Every file in the order of its name, with one date."""
    version = json.loads((SOURCE / "manifest.json").read_text("utf-8"))["version"]
    target.mkdir(parents=True, exist_ok=True)
    packed = target / f"epicrec-extension-{version}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(path for path in SOURCE.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(SOURCE).as_posix(), (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    return packed


def colour_at(x: float, y: float) -> tuple[int, int, int, int]:
    """The icon on a square of side 16, as `static/icon.svg` of the client draws it."""
    corner = hypot(max(4 - x, 0, x - 12), max(4 - y, 0, y - 12))
    if corner > 4:
        return 0, 0, 0, 0
    arc = y <= 8 and 3 <= hypot(x - 8, y - 8) <= 5
    return (255, 255, 255, 255) if arc or hypot(x - 8, y - 10) <= 2 else (11, 92, 122, 255)


def draw(size: int) -> bytes:
    """A PNG; each pixel is the mean of a few points in it."""
    lines = bytearray()
    for row in range(size):
        lines.append(0)
        for column in range(size):
            points = [
                colour_at(
                    16 * (column + (i + 0.5) / FINE) / size, 16 * (row + (j + 0.5) / FINE) / size
                )
                for i in range(FINE) for j in range(FINE)
            ]  # fmt: skip
            alpha = sum(point[3] for point in points)
            lines += bytes(
                sum(point[k] * point[3] for point in points) // max(alpha, 1) for k in range(3)
            )
            lines.append(alpha // FINE**2)
    head = struct.pack(">IIBBBBB", size, size, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(lines), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["icons"]:
        for size in SIZES:
            (SOURCE / "icons" / f"{size}.png").write_bytes(draw(size))
    else:
        packed = pack(TARGET)
        print(f"{packed} ({packed.stat().st_size:,} bytes)")
