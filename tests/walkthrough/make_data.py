"""Makes data sets like those of users from the shared test data: folders of handwritten characters, and a table.

  make_data.py SHARED OUT

  OUT/greek/train/character01/1.png ... 15.png, OUT/greek/test/character01/16.png ... 20.png   24 classes, from Omniglot
  OUT/hebrew/train, OUT/hebrew/test                                                            22 classes, in this form
  OUT/new/1.png ... 12.png                     the last drawing of the first twelve Greek characters, to be classified
  OUT/digits.csv                               4,000 MNIST digits as means of 4 x 4 pixels, with a header; labels are words

SHARED is the folder with `omniglot` and `mnist`. Needs only Python.
"""

import gzip
import os
import struct
import sys
import zipfile

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SAMPLES = 4_000


def write_characters(shared, out):
    with zipfile.ZipFile(os.path.join(shared, "omniglot", "images_background.zip")) as archive:
        for name in sorted(archive.namelist()):
            _, alphabet, character, file = (name.split("/") + [""] * 3)[:4]
            if alphabet not in ("Greek", "Hebrew") or not file.endswith(".png"):
                continue
            drawing = int(file[:-4].split("_")[1])
            part = "train" if drawing <= 15 else "test"
            path = os.path.join(out, alphabet.lower(), part, character, f"{drawing}.png")
            write(path, archive.read(name))
            number = int(character[-2:])
            if alphabet == "Greek" and drawing == 20 and number <= 12:
                write(os.path.join(out, "new", f"{number}.png"), archive.read(name))


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def read_idx(path):
    with gzip.open(path) as file:
        dims = file.read(4)[3]
        return struct.unpack(f">{dims}I", file.read(4 * dims)), file.read()


def write_table(shared, out):
    (_, rows, columns), pixels = read_idx(os.path.join(shared, "mnist", "train-images-idx3-ubyte.gz"))
    _, labels = read_idx(os.path.join(shared, "mnist", "train-labels-idx1-ubyte.gz"))
    with open(os.path.join(out, "digits.csv"), "w") as table:
        table.write(",".join(f"ink{i}" for i in range(rows // 4 * (columns // 4))) + ",digit\n")
        for sample in range(SAMPLES):
            picture = pixels[sample * rows * columns:(sample + 1) * rows * columns]
            means = []
            for y in range(0, rows, 4):
                for x in range(0, columns, 4):
                    means.append(sum(sum(picture[(y + i) * columns + x:(y + i) * columns + x + 4]) for i in range(4)) // 16)
            table.write(",".join(map(str, means)) + "," + WORDS[labels[sample]] + "\n")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    os.makedirs(sys.argv[2], exist_ok=True)
    write_characters(sys.argv[1], sys.argv[2])
    write_table(sys.argv[1], sys.argv[2])


if __name__ == "__main__":
    main()
