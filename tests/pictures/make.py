#!/usr/bin/env python3
"""Makes the pictures of this folder and table.txt, which has what PIL reads from each of them.

A line of the table is: file, background as r,g,b, width, height, RGB and grey as hex. Grey is PIL's convert("L") of the
RGB picture. Needs pillow and numpy, in a virtual environment:
    python3 -m venv /tmp/pil && /tmp/pil/bin/pip install pillow numpy && /tmp/pil/bin/python tests/pictures/make.py
"""
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

HERE = Path(__file__).parent
WIDTH, HEIGHT = 11, 7
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
table = []


def colours():
    """A smooth picture that ends in strong colours: [HEIGHT, WIDTH, 3]."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    red = 255 * x / (WIDTH - 1)
    green = 255 * y / (HEIGHT - 1)
    blue = 255 - (red + green) / 2
    return np.stack([red, green, blue], axis=2).round().astype(np.uint8)


def ramp():
    return np.linspace(0, 255, WIDTH * HEIGHT).round().astype(np.uint8).reshape(HEIGHT, WIDTH)


def reference(image):
    """What an upright picture is over black, and over a colour."""
    image = ImageOps.exif_transpose(image)
    if image.mode in ("I", "I;16", "I;16B"):  # PIL keeps 16 bits of grey
        image = Image.fromarray(np.round(np.array(image).astype(float) / 257).astype(np.uint8))
    return image.convert("RGBA")


def note(name, backgrounds=((0, 0, 0),)):
    image = reference(Image.open(HERE / name))
    for background in backgrounds:
        behind = Image.new("RGBA", image.size, background + (255,))
        rgb = Image.alpha_composite(behind, image).convert("RGB")
        table.append(f"{name} {','.join(map(str, background))} {rgb.width} {rgb.height} "
                     f"{rgb.tobytes().hex()} {rgb.convert('L').tobytes().hex()}")


def exif(orientation):
    data = Image.Exif()
    data[0x0112] = orientation
    return data.tobytes()


def write_png(name, pixels, depth, kind, interlaced=False, palette=None, transparent=None, orientation=None):
    """Kinds are those of PNG: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA. PIL writes no interlaced files."""
    pixels = np.asarray(pixels)
    pixels = pixels.reshape(pixels.shape[0], pixels.shape[1], -1)

    def rows(part):
        text = b""
        for row in part:
            if depth == 16:
                data = row.astype(">u2").tobytes()
            elif depth == 8:
                data = row.astype(np.uint8).tobytes()
            else:
                bits = "".join(format(int(v), f"0{depth}b") for v in row.ravel())
                bits += "0" * (-len(bits) % 8)
                data = bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))
            text += b"\0" + data
        return text

    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    parts = [pixels[y::dy, x::dx] for x, y, dx, dy in passes]
    data = b"".join(rows(part) for part in parts if part.shape[0] and part.shape[1])

    def chunk(kind_of, content):
        return struct.pack(">I", len(content)) + kind_of + content + struct.pack(">I", zlib.crc32(kind_of + content))

    out = b"\x89PNG\r\n\x1a\n"
    out += chunk(b"IHDR", struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], depth, kind, 0, 0, interlaced))
    out += chunk(b"gAMA", struct.pack(">I", 100000))  # says that values are linear; nobody is to obey it
    if palette is not None:
        out += chunk(b"PLTE", np.asarray(palette, np.uint8).tobytes())
    if transparent is not None:
        out += chunk(b"tRNS", transparent)
    out += chunk(b"IDAT", zlib.compress(data, 9))
    if orientation is not None:  # behind the pixels, where it may be
        out += chunk(b"eXIf", exif(orientation)[6:] if exif(orientation)[:4] == b"Exif" else exif(orientation))
    (HERE / name).write_bytes(out + chunk(b"IEND", b""))


def make_png():
    rgb, grey = colours(), ramp()
    alpha = grey[:, ::-1]
    behind = ((0, 0, 0), (255, 255, 255), (20, 200, 90))
    wide = lambda values: values.astype(int) * 257 // 1
    palette = [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0], [9, 99, 200]] + [[i, 255 - i, i // 2] for i in range(5, 16)]
    index = (grey // 16).astype(int)
    write_png("primaries.png", [[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255], [0, 0, 0]]], 8, 2)
    note("primaries.png")
    for name, interlaced in (("", False), ("_interlaced", True)):
        write_png(f"grey1{name}.png", grey // 128, 1, 0, interlaced)
        write_png(f"grey2{name}.png", grey // 64, 2, 0, interlaced)
        write_png(f"grey4{name}.png", grey // 16, 4, 0, interlaced)
        write_png(f"grey8{name}.png", grey, 8, 0, interlaced)
        write_png(f"grey16{name}.png", wide(grey), 16, 0, interlaced)
        write_png(f"rgb8{name}.png", rgb, 8, 2, interlaced)
        write_png(f"rgb16{name}.png", wide(rgb), 16, 2, interlaced)
        write_png(f"palette4{name}.png", index, 4, 3, interlaced, palette)
        for kind in ("grey1", "grey2", "grey4", "grey8", "grey16", "rgb8", "rgb16", "palette4"):
            note(f"{kind}{name}.png")
        write_png(f"greyalpha8{name}.png", np.dstack([grey, alpha]), 8, 4, interlaced)
        write_png(f"greyalpha16{name}.png", wide(np.dstack([grey, alpha])), 16, 4, interlaced)
        write_png(f"rgba8{name}.png", np.dstack([rgb, alpha]), 8, 6, interlaced)
        write_png(f"rgba16{name}.png", wide(np.dstack([rgb, alpha])), 16, 6, interlaced)
        write_png(f"palettealpha{name}.png", index, 8, 3, interlaced, palette, bytes([0, 60, 120, 250]))
        for kind in ("greyalpha8", "greyalpha16", "rgba8", "rgba16", "palettealpha"):
            note(f"{kind}{name}.png", behind)
    write_png("greykey.png", grey, 8, 0, transparent=struct.pack(">H", grey[3, 4]))
    write_png("rgbkey.png", rgb, 8, 2, transparent=struct.pack(">HHH", *map(int, rgb[2, 3])))
    note("greykey.png", behind)
    note("rgbkey.png", behind)
    write_png("turned6.png", rgb, 8, 2, orientation=6)
    note("turned6.png")


def make_jpeg():
    rgb = Image.fromarray(colours()).resize((22, 14), Image.BILINEAR)
    for name, options in {
            "444": dict(subsampling=0), "422": dict(subsampling=1), "420": dict(subsampling=2),
            "progressive": dict(progressive=True), "stored_rgb": dict(keep_rgb=True), "poor": dict(quality=12)}.items():
        rgb.save(HERE / f"{name}.jpg", **{"quality": 90, **options})
        note(f"{name}.jpg")
    rgb.convert("L").save(HERE / "grey.jpg", quality=90)
    note("grey.jpg")
    inks = np.dstack([colours(), ramp()])
    Image.fromarray(inks, "CMYK").save(HERE / "cmyk.jpg", quality=95)
    note("cmyk.jpg")
    data = bytearray((HERE / "cmyk.jpg").read_bytes())
    marker = data.index(b"Adobe")
    assert data[marker + 11] == 0
    data[marker + 11] = 2  # the same bytes as YCCK
    (HERE / "ycck.jpg").write_bytes(data)
    note("ycck.jpg")
    for orientation in range(1, 9):
        rgb.save(HERE / f"turned{orientation}.jpg", quality=90, exif=exif(orientation))
        note(f"turned{orientation}.jpg")
    rgb.convert("L").save(HERE / "turned5_grey.jpg", quality=90, exif=exif(5))
    note("turned5_grey.jpg")


def make_webp():
    rgb = Image.fromarray(colours()).resize((22, 14), Image.BILINEAR)
    rgba = rgb.copy()
    rgba.putalpha(Image.fromarray(ramp()).resize((22, 14), Image.BILINEAR))
    rgb.save(HERE / "lossy.webp", quality=90)
    rgb.save(HERE / "lossless.webp", lossless=True)
    rgb.convert("L").save(HERE / "grey.webp", lossless=True)
    rgb.save(HERE / "turned7.webp", lossless=True, exif=exif(7))
    for name in ("lossy", "lossless", "grey", "turned7"):
        note(f"{name}.webp")
    rgba.save(HERE / "alpha_lossy.webp", quality=90)
    rgba.save(HERE / "alpha_lossless.webp", lossless=True, exact=True)
    for name in ("alpha_lossy", "alpha_lossless"):
        note(f"{name}.webp", ((0, 0, 0), (255, 255, 255)))


def write_bmp(name, bits, rows, masks=None, palette=b"", top_down=False, header=40, colours_named=0):
    """Rows of bytes, from the top; PIL writes no masks and nothing from the top down."""
    height = len(rows)
    info = struct.pack("<IiiHHIIiiII", header, WIDTH, -height if top_down else height, 1, bits, 3 if masks else 0, 0, 0, 0,
                       colours_named, 0)
    if header == 12:
        info = struct.pack("<IHHHH", 12, WIDTH, height, 1, bits)
    tail = b"".join(struct.pack("<I", m) for m in masks or ())
    info += tail
    if header > 40:
        info += b"\0" * (header - len(info))
    body = b"".join(row + b"\0" * (-len(row) % 4) for row in (rows if top_down else rows[::-1]))
    start = 14 + len(info) + len(palette)
    (HERE / name).write_bytes(b"BM" + struct.pack("<IHHI", start + len(body), 0, 0, start) + info + palette + body)


def make_bmp():
    rgb, grey = colours(), ramp()
    Image.fromarray(rgb).save(HERE / "rgb.bmp")
    Image.fromarray(grey).save(HERE / "grey.bmp")
    Image.fromarray(rgb).convert("P", palette=Image.ADAPTIVE, colors=9).save(HERE / "palette.bmp")
    Image.fromarray(grey).point(lambda v: 255 * (v > 99)).convert("1").save(HERE / "bits.bmp")
    bgr = rgb[:, :, ::-1]
    write_bmp("top_down.bmp", 24, [row.tobytes() for row in bgr], top_down=True)
    write_bmp("old.bmp", 24, [row.tobytes() for row in bgr], header=12)
    bgrx = np.dstack([bgr, grey])
    write_bmp("fourth.bmp", 32, [row.tobytes() for row in bgrx])
    write_bmp("alpha.bmp", 32, [row.tobytes() for row in bgrx], masks=(0xFF0000, 0xFF00, 0xFF, 0xFF000000), header=108)
    wide = rgb.astype(np.uint16)
    write_bmp("rgb555.bmp", 16, [((r[:, 0] >> 3) << 10 | (r[:, 1] >> 3) << 5 | r[:, 2] >> 3).astype("<u2").tobytes()
                                 for r in wide])
    write_bmp("rgb565.bmp", 16, [((r[:, 0] >> 3) << 11 | (r[:, 1] >> 2) << 5 | r[:, 2] >> 3).astype("<u2").tobytes()
                                 for r in wide], masks=(0xF800, 0x7E0, 0x1F))
    index = grey // 16
    nibbles = [bytes(int(a) << 4 | int(b) for a, b in zip(row[::2], list(row[1::2]) + [0])) for row in index]
    write_bmp("palette4.bmp", 4, nibbles, palette=b"".join(bytes([i, 255 - i, 9 * i, 0]) for i in range(16)))
    for name in ("rgb", "grey", "palette", "bits", "top_down", "old", "fourth", "rgb555", "rgb565", "palette4"):
        note(f"{name}.bmp")
    note("alpha.bmp", ((0, 0, 0), (255, 255, 255)))


def make_pnm():
    rgb, grey = colours(), ramp()
    Image.fromarray(rgb).save(HERE / "rgb.ppm")
    Image.fromarray(grey).save(HERE / "grey.pgm")
    start = f"# a comment\n{WIDTH}  {HEIGHT} # another\n"
    (HERE / "text.pgm").write_text(f"P2\n{start}200\n" + "\n".join(" ".join(str(int(v) * 200 // 255) for v in row) for row in grey))
    (HERE / "text.ppm").write_text(f"P3\n{start}255\n" + "\n".join(" ".join(str(int(v)) for v in row.ravel()) for row in rgb))
    (HERE / "deep.pgm").write_bytes(f"P5 {start}65535\n".encode() + (grey.astype(int) * 257).astype(">u2").tobytes())
    (HERE / "deep.ppm").write_bytes(f"P6 {start}1023\n".encode() + (rgb.astype(int) * 1023 // 255).astype(">u2").tobytes())
    for name in ("rgb.ppm", "grey.pgm", "text.pgm", "text.ppm", "deep.pgm", "deep.ppm"):
        note(name)


make_png()
make_jpeg()
make_webp()
make_bmp()
make_pnm()
(HERE / "table.txt").write_text("\n".join(table) + "\n")
print(len(table), "lines")
