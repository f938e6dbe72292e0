#!/usr/bin/env python3
"""Splits UniMorph's English word forms for models/lemma.xgraph: the input is a word form, the class is its lemma.

usage: scripts/lemma.py DIR [OUT]

DIR has eng.tsv.gz or eng.tsv (https://github.com/unimorph/eng, commit 16b384f, file eng.args): lines of lemma, form
and features, separated by tabs. OUT, by default build/lemma, gets train.tsv and test.tsv: lines of class and form. The
features are dropped, and each pair of lemma and form counts once. The test form of a lemma is the one with the smallest
CRC-32 of form, tab and class, among its forms that differ from the lemma; ties go to the smaller form. Lemmas with
fewer than two forms, or without a form other than themselves, are only in train.tsv.
"""
import collections
import gzip
import os
import sys
import zlib


def read_forms(directory):
    """Returns the set of forms of each class, `eng:walk`, as bytes."""
    path = os.path.join(directory, "eng.tsv.gz")
    opener = gzip.open if os.path.exists(path) else open
    forms = collections.defaultdict(set)
    with opener(path if opener is gzip.open else os.path.join(directory, "eng.tsv"), "rb") as lines:
        for line in lines:
            cells = line.rstrip(b"\r\n").split(b"\t")
            if len(cells) == 3:
                forms[b"eng:" + cells[0]].add(cells[1])
    return forms


def test_form(name, forms):
    """Returns the form of a class that only the test set has, or None."""
    others = [form for form in forms if form != name[len(b"eng:"):]]
    if len(forms) < 2 or not others:
        return None
    return min(others, key=lambda form: (zlib.crc32(form + b"\t" + name), form))


def main(directory, out):
    try:
        forms = read_forms(directory)
        os.makedirs(out, exist_ok=True)
        counts = {"train": 0, "test": 0}
        files = {part: open(os.path.join(out, part + ".tsv.tmp"), "wb") for part in counts}
        for name in sorted(forms):
            held_out = test_form(name, forms[name])
            for form in sorted(forms[name]):
                part = "test" if form == held_out else "train"
                files[part].write(name + b"\t" + form + b"\n")
                counts[part] += 1
        for part, file in files.items():
            file.close()
            os.replace(file.name, os.path.join(out, part + ".tsv"))
    except OSError as error:
        sys.exit(f"lemma: {error.filename}: {error.strerror}")
    print(f"lemma: {len(forms)} classes, {counts['train']} forms to train, {counts['test']} to test in {out}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    tree = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    main(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else os.path.join(tree, "build", "lemma"))
