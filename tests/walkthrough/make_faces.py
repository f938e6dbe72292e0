"""Makes a small set in the files of InsightFace, for docs/guide/data.md: photographs of groceries stand for faces.

  make_faces.py SHARED OUT

  OUT/train.rec, OUT/train.idx, OUT/property   810 pictures of 81 products: a header with key 0, the pictures, and a record
                                               for each product, as InsightFace's face2rec2 writes them
  OUT/test.bin                                 400 pairs of other pictures, one half of one product, as in lfw.bin
  OUT/groceries                                the same 810 pictures in folders with the names of the products

SHARED is the folder with `grocery-81`. Needs only Python.
"""

import os
import pickle
import random
import struct
import sys
import zipfile

MAGIC = 0xCED7230A
FOLDS, PAIRS_OF_A_FOLD = 10, 40


def record(labels, key, picture):
    """A record: one label is in the header, several are in a list. No picture here has the magic at a multiple of 4."""
    flag, label = (0, labels[0]) if len(labels) == 1 else (len(labels), 0.0)
    data = struct.pack("<IfQQ", flag, label, key, 0) + (struct.pack(f"<{flag}f", *labels) if flag else b"") + picture
    assert all(data[i:i + 4] != struct.pack("<I", MAGIC) for i in range(0, len(data), 4))
    return struct.pack("<II", MAGIC, len(data)) + data + b"\0" * (-len(data) % 4)


def write_records(out, pictures):
    """`pictures`: pairs of a class and its picture, sorted by class."""
    classes = pictures[-1][0] + 1
    first_identity = len(pictures) + 1
    records = [record([float(first_identity), float(first_identity + classes)], 0, b"")]
    records += [record([float(label)], key, data) for key, (label, data) in enumerate(pictures, 1)]
    for label in range(classes):
        keys = [key for key, (one, _) in enumerate(pictures, 1) if one == label]
        records.append(record([float(keys[0]), float(keys[-1] + 1)], first_identity + label, b""))
    with open(os.path.join(out, "train.rec"), "wb") as rec, open(os.path.join(out, "train.idx"), "w") as idx:
        for key, data in enumerate(records):
            idx.write(f"{key}\t{rec.tell()}\n")
            rec.write(data)
    with open(os.path.join(out, "property"), "w") as file:
        file.write(f"{classes},112,112\n")


def write_pairs(out, pictures, seed=1):
    draw = random.Random(seed)
    by_class = {}
    for label, data in pictures:
        by_class.setdefault(label, []).append(data)
    bins, same = [], []
    for pair in range(FOLDS * PAIRS_OF_A_FOLD):
        is_same = pair % PAIRS_OF_A_FOLD < PAIRS_OF_A_FOLD // 2
        if is_same:
            bins += draw.sample(by_class[draw.choice(sorted(by_class))], 2)
        else:
            bins += [draw.choice(by_class[label]) for label in draw.sample(sorted(by_class), 2)]
        same.append(is_same)
    with open(os.path.join(out, "test.bin"), "wb") as file:
        pickle.dump((bins, same), file, protocol=4)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    out = sys.argv[2]
    os.makedirs(out, exist_ok=True)
    with zipfile.ZipFile(os.path.join(sys.argv[1], "grocery-81", "grocery-81-subset.zip")) as archive:
        sets = {}
        for part in ("train", "test"):
            rows = [line.split(", ") for line in archive.read(f"{part}.txt").decode().splitlines()]
            sets[part] = sorted((int(row[1]), row[0]) for row in rows)
        for label, path in sets["train"]:
            folder = os.path.join(out, "groceries", path.split("/")[-2])
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, path.split("/")[-1]), "wb") as file:
                file.write(archive.read(path))
        write_records(out, [(label, archive.read(path)) for label, path in sets["train"]])
        write_pairs(out, [(label, archive.read(path)) for label, path in sets["test"]])


if __name__ == "__main__":
    main()
