#!/usr/bin/env bash
# tfrecord 1.14.6 (PyPI): if a feature holds two or more byte strings, the reader drops the zero bytes at their ends,
# without a message, so strings of one length come back with different lengths. The writer stores them whole, and a
# feature with one byte string comes back whole. The reader puts several strings into a NumPy array of fixed length.
#
# Small integers in little-endian order end in zero bytes, for example 5, which is 05 00 00 00.
# Seen: the 4 bytes of the integer 5 come back whole when they are alone. Together with those of 256, they come back as
# 1 byte, and those of 256 as 2 bytes. The bytes of both are in the file.
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs python3-venv and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
  tfrecord==1.14.6 crc32c==2.9.post0 numpy==2.2.6 protobuf==7.36.2
cd "$work"
"$work/venv/bin/python" - <<'PY'
import importlib.metadata
import pathlib
import struct
import sys

from tfrecord.reader import tfrecord_loader
from tfrecord.writer import TFRecordWriter

five, many = struct.pack("<i", 5), struct.pack("<i", 256)
written = {"alone": [five], "pair": [five, many]}
writer = TFRecordWriter("rows.tfrecord")
writer.write({name: (values, "byte") for name, values in written.items()})
writer.close()
(row,) = tfrecord_loader("rows.tfrecord", None)
read = {"alone": [row["alone"]], "pair": [bytes(value) for value in row["pair"]]}
in_file = [value in pathlib.Path("rows.tfrecord").read_bytes() for value in (five, many)]
print("tfrecord", importlib.metadata.version("tfrecord"))
for name, values in written.items():
    print(f"{name}: written {values}, read {read[name]}")
print("in the file:", in_file)
as_seen = read == {"alone": [five], "pair": [b"\x05", b"\x00\x01"]} and in_file == [True, True]
print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
