"""Prints the labels and the bytes of a .rec and of tar shards, as mxnet 1.9.1 and webdataset 1.0.2 read them.

    python read_sets.py FILE.rec 'FILE-{0..1}.tar'
"""
import sys

import numpy as np

np.bool = bool  # mxnet 1.9.1 uses the name that NumPy 1.24 removed
import mxnet
import webdataset

records, shards = sys.argv[1:]
print("mxnet")
reader = mxnet.recordio.MXIndexedRecordIO(records.replace(".rec", ".idx"), records, "r")
for key in reader.keys:
    header, picture = mxnet.recordio.unpack(reader.read_idx(key))
    assert header.id == key
    print(int(header.label), picture.hex())
print("webdataset")
for sample in webdataset.WebDataset(shards, shardshuffle=False):
    pictures = [sample[name] for name in sample if not name.startswith("__") and name != "cls"]
    assert len(pictures) == 1
    print(int(sample["cls"]), pictures[0].hex())
