"""Writes the lists of this folder as PLSC documents them: label.txt of version 2, and the parts of version 1.

    pip install "numpy<1.24" "opencv-python-headless<4.9"
    python make.py

The parts follow tools/process_base64_files.py of PLSC 1.0, which is not in a package: the samples in a random order,
repeated from the start until both parts have the same length.
"""
import base64
import os

import cv2
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def png(number):
    y, x = np.mgrid[0:6, 0:8]
    pixels = np.stack([40 * number + 9 * x, 80 + 20 * y, 200 - 12 * x - 8 * y], axis=2).astype(np.uint8)
    return cv2.imencode(".png", pixels)[1].tobytes()


names = ["images/%d.png" % i for i in range(5)]
labels = [0, 1, 2, 1, 0]
os.makedirs(os.path.join(HERE, "images"), exist_ok=True)
with open(os.path.join(HERE, "label.txt"), "w") as lines:
    for number, (name, label) in enumerate(zip(names, labels)):
        with open(os.path.join(HERE, name), "wb") as out:
            out.write(png(number))
        lines.write("%s\t%d\n" % (name, label))

order = [3, 0, 4, 2, 1, 3]
with open(os.path.join(HERE, "file_list.txt"), "w") as parts:
    for rank in range(2):
        part = "base64_rank_%d" % rank
        parts.write(part + "\n")
        with open(os.path.join(HERE, part), "w") as out:
            for i in order[3 * rank:3 * rank + 3]:
                out.write(base64.b64encode(png(i)).decode() + "\t" + str(labels[i]) + "\n")
