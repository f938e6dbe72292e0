#!/usr/bin/env python3
"""Makes resized.txt of this folder, which has what Pillow makes of some of these pictures at other sizes.

A line of the table is: file, channels, filter, height, width, pixels as hex. Made with pillow 12.3.0:
    python3 -m venv /tmp/pil && /tmp/pil/bin/pip install pillow numpy
    /tmp/pil/bin/python tests/pictures/make_resized.py
"""
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
SIZES = [(1, 1), (3, 5), (4, 4), (7, 4), (6, 11), (9, 16), (20, 13)]
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}

lines = []
for name, mode in (("rgb.ppm", "RGB"), ("primaries.png", "RGB"), ("grey1.png", "L")):
    picture = Image.open(HERE / name).convert(mode)
    for filter_name, filter_number in FILTERS.items():
        for height, width in SIZES:
            resized = picture.resize((width, height), filter_number)
            lines.append(f"{name} {len(mode)} {filter_name} {height} {width} {resized.tobytes().hex()}")
(HERE / "resized.txt").write_text("\n".join(lines) + "\n")
