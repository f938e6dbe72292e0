"""Writes the sets of this folder with the writers of MXNet and InsightFace, and beside each what their readers give.

    pip install mxnet==1.9.1 "numpy<1.24" "opencv-python-headless<4.9" insightface==2.1 (--no-deps)
    python make.py

made/       mxnet.recordio with the layout of InsightFace's face2rec2: a header (key 0) and identities; a picture with the
            magic at a multiple of 4, a label that is a list, and an index whose lines are not sorted
im2rec/     mxnet.tools.im2rec: .rec, .idx and .lst of a folder, labels by folder
builder/    insightface.data.rec_builder.RecBuilder: no header, `property` with two lines

expected.txt has a line `key id label,label... pixels` for each picture in the order of the file; the pixels are the
bytes of mxnet.image.imdecode (RGB, 8 x 6) in hexadecimal.
"""
import os
import shutil
import struct
import subprocess
import sys

import numpy as np

np.bool = bool  # mxnet 1.9.1 uses the name that NumPy 1.24 removed
import cv2
import mxnet as mx

HERE = os.path.dirname(os.path.abspath(__file__))
MAGIC = struct.pack("<I", 0xCED7230A)


def picture(number):
    """A picture of 8 x 6 with a colour of its own and a gradient, BGR."""
    y, x = np.mgrid[0:6, 0:8]
    return np.stack([(40 * number + 9 * x) % 256, (80 + 20 * y + 30 * number) % 256, 200 - 12 * x - 8 * y],
                    axis=2).astype(np.uint8)


def jpeg(number, quality=95):
    return cv2.imencode(".jpg", picture(number), [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()


def png(number):
    return cv2.imencode(".png", picture(number))[1].tobytes()


def with_magic(file):
    """The JPEG file with a comment whose bytes hold the magic three times, once at each multiple of 4 of the record."""
    for pad in range(4):
        comment = b"x" * pad + MAGIC + b"between" + b"y" + MAGIC + MAGIC
        made = file[:2] + b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment + file[2:]
        if (24 + made.index(MAGIC)) % 4 == 0:
            return made
    raise AssertionError


def expect(folder, name):
    """Writes what mxnet's own reader gives for each key of the index, in the order of the file."""
    path = os.path.join(HERE, folder, name)
    keys = {}
    with open(path + ".idx") as lines:
        for line in lines:
            key, offset = line.split("\t")
            keys[int(key)] = int(offset)
    reader = mx.recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "r")
    with open(os.path.join(HERE, folder, "expected.txt"), "w") as out:
        for key in sorted(keys, key=keys.get):
            header, image = mx.recordio.unpack(reader.read_idx(key))
            if header.flag == 2 and not image:
                continue
            labels = [header.label] if header.flag == 0 else list(header.label)
            pixels = mx.image.imdecode(image).asnumpy()
            assert pixels.shape == (6, 8, 3)
            out.write("%d %d %s %s\n" % (key, header.id, ",".join("%g" % l for l in labels), pixels.tobytes().hex()))


def fresh(folder):
    path = os.path.join(HERE, folder)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def made():
    path = os.path.join(fresh("made"), "train")
    record = mx.recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "w")
    header = mx.recordio.IRHeader
    files = [jpeg(0), png(1), with_magic(jpeg(2)), jpeg(3), png(4)]
    labels = [[0, 1], [0, 1], [1, 1], [2, 0], [2, 1]]
    record.write_idx(0, mx.recordio.pack(header(0, [6.0, 9.0], 0, 0), b""))
    for i, (file, label) in enumerate(zip(files, labels)):
        record.write_idx(i + 1, mx.recordio.pack(header(0, label, i + 1, 0), file))
    for key, (first, last) in enumerate([(1, 3), (3, 4), (4, 6)], start=6):
        record.write_idx(key, mx.recordio.pack(header(0, [float(first), float(last)], key, 0), b""))
    record.close()
    with open(path + ".idx") as index:
        lines = index.readlines()
    with open(path + ".idx", "w") as index:
        # Two lines for key 2, of which the last one counts, and the order of a set.
        index.writelines(["2\t0\n"] + lines[::-1])
    with open(os.path.join(HERE, "made", "property"), "w") as out:
        out.write("3,6,8\n")
    expect("made", "train")


def im2rec():
    path = fresh("im2rec")
    pictures = os.path.join(path, "pictures")
    for number, name in enumerate(["b/0.png", "b/1.png", "a/0.png", "c/0.png"]):
        os.makedirs(os.path.join(pictures, os.path.dirname(name)), exist_ok=True)
        with open(os.path.join(pictures, name), "wb") as out:
            out.write(png(number))
    tool = [sys.executable, "-c", "import numpy as np; np.bool = bool; import runpy, sys; sys.argv[0] = 'im2rec';"
            "runpy.run_module('mxnet.tools.im2rec', run_name='__main__')"]
    prefix = os.path.join(path, "train")
    subprocess.check_call(tool + ["--list", "--recursive", prefix, pictures])
    subprocess.check_call(tool + ["--encoding", ".png", "--quality", "3", prefix, pictures])
    shutil.rmtree(pictures)
    expect("im2rec", "train")


def builder():
    # The package imports its models, which need onnxruntime; the builder is one file.
    import importlib.util
    spec = importlib.util.find_spec("insightface")
    file = os.path.join(list(spec.submodule_search_locations)[0], "data", "rec_builder.py")
    loaded = importlib.util.spec_from_file_location("rec_builder", file)
    module = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(module)
    shutil.rmtree(os.path.join(HERE, "builder"), ignore_errors=True)
    made = module.RecBuilder(os.path.join(HERE, "builder"), image_size=(6, 8))
    made.add([picture(0), picture(1)])
    made.add([jpeg(2)])
    made.add_image(jpeg(3), [4, 0.5])
    made.close()
    made.writer.close()  # which RecBuilder.close leaves to the end of the process
    os.remove(os.path.join(HERE, "builder", "train.meta"))
    expect("builder", "train")


if __name__ == "__main__":
    made()
    im2rec()
    builder()
