"""Makes the shards of this folder and expected.tsv, which has what webdataset's own reader finds in them."""

import io
import os
import pathlib
import subprocess
import tarfile
import tempfile
import zlib

import PIL.Image
import webdataset


def picture(number, format):
    out = io.BytesIO()
    image = PIL.Image.new("RGB", (6, 4), (40 * number % 256, 255 - 20 * number, 128))
    image.save(out, format, quality=90)
    return out.getvalue()


def without_owner(info):
    info.mtime = info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


# Mixed extensions, labels as webdataset stores an int, a float and a text, and members that are no part of a sample.
with webdataset.TarWriter("train-000008.tar", encoder=False, mtime=0) as writer:
    for number, format in enumerate(["jpeg", "png", "webp", "jpeg"]):
        extension = {"jpeg": ["jpg", "JPEG"][number // 3]}.get(format, format)
        label = [b"3", b"7.0", b" 12\n", str(2**40).encode()][number]
        writer.write({"__key__": f"{number:06d}", extension: picture(number, format), "cls": label})
with webdataset.TarWriter("train-000009.tar", mtime=0) as writer:
    for number in range(4, 7):
        writer.write({"__key__": f"a/b.c/{number:06d}", "png": picture(number, "png"), "cls": number,
                      "json": {"number": number}, "seg.PNG": picture(number + 1, "png")})

with tempfile.TemporaryDirectory() as folder:
    long = "directory" * 9 + "/" + "name" * 20
    root = pathlib.Path(folder)
    (root / long).parent.mkdir()
    for number, key in enumerate(["short", "./dot", long, "über"]):
        (root / f"{key}.png").write_bytes(picture(number, "png"))
        (root / f"{key}.cls").write_text(str(number))
    (root / "__meta__").write_text("x")
    os.symlink("short.png", root / "link.png")
    names = ["__meta__", "short.cls", "short.png", "link.png", "./dot.cls", "./dot.png", long + ".cls", long + ".png",
             "über.cls", "über.png"]
    for format in ["gnu", "ustar", "posix", "v7"]:
        chosen = [name for name in names if format != "v7" or len(name) < 100]
        subprocess.run(["tar", "--format", format, "--blocking-factor=1", "--mtime=@0", "--owner=0", "--group=0",
                        "-C", folder, "-cf", os.path.abspath(f"{format}.tar"), "--", *chosen], check=True)
    for format in ["USTAR", "GNU", "PAX"]:
        with tarfile.open(f"python_{format.lower()}.tar", "w", format=getattr(tarfile, format + "_FORMAT"),
                          pax_headers={"comment": "made by tarfile"} if format == "PAX" else {}) as out:
            for name in names:
                out.add(root / name, name, filter=without_owner)

with open("expected.tsv", "w") as out:
    out.write("shard\tkey\textension\tbytes\tcrc32\n")
    for shard in sorted(pathlib.Path(".").glob("*.tar")):
        for sample in webdataset.WebDataset(str(shard), shardshuffle=False, empty_check=False):
            for extension, content in sample.items():
                if not extension.startswith("__"):
                    out.write(f"{shard}\t{sample['__key__']}\t{extension}\t{len(content)}\t{zlib.crc32(content):08x}\n")
