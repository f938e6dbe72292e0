#!/usr/bin/env bash
# tinygrad 0.14.0 (PyPI): torch_load reads a view that skips numbers of its storage as if its numbers lay side by side,
# without a message. torch.save keeps the whole storage of a view, with the steps (strides) between its numbers. A
# transposed matrix, a permuted one and a block of whole rows come back right; a block of columns, every second row and
# one column come back with other numbers of the storage. An overlapping view ends in an AssertionError.
#
# Embeddings are often cut to their first numbers, table[:, :64], and then saved.
# Seen: of the 3 x 4 matrix 0 ... 11, the first two columns are read as [[0, 1], [2, 3], [4, 5]], rows 0 and 2 as rows 0
# and 1, and column 1 as [1, 2, 3].
#
# The script writes its file in the layout of torch.save with the standard library, since PyTorch is large. PyTorch
# 2.13.0 reads the views of this file right, and tinygrad reads a file of torch.save in the same wrong way.
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs Python 3.11, python3-venv and the
# network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check tinygrad==0.14.0
cd "$work"
cat >views.py <<'PY'
# Size, strides and first number of each view of the 3 x 4 matrix 0 ... 11.
VIEWS = {
    "whole": ((3, 4), (4, 1), 0),
    "transposed": ((4, 3), (1, 4), 0),
    "last two rows": ((2, 4), (4, 1), 4),
    "first two columns": ((3, 2), (4, 1), 0),
    "rows 0 and 2": ((2, 4), (8, 1), 0),
    "column 1": ((3,), (4,), 1),
}


def numbers(size, strides, first):
    if not size:
        return float(first)
    return [numbers(size[1:], strides[1:], first + i * strides[0]) for i in range(size[0])]
PY
"$work/venv/bin/python" - <<'PY'
import collections
import io
import pickle
import struct
import sys
import types
import zipfile

from views import VIEWS

# Names that the pickle refers to; pickle looks them up while it writes.
torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
sys.modules.update({"torch": torch, "torch._utils": utils})
torch._utils = utils
torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})
exec("def _rebuild_tensor_v2(): pass", utils.__dict__)


class View:
    def __init__(self, size, strides, first):
        self.arguments = (torch.FloatStorage(), first, size, strides, False, collections.OrderedDict())

    def __reduce__(self):
        return utils._rebuild_tensor_v2, self.arguments


class Writer(pickle.Pickler):
    def persistent_id(self, item):
        return ("storage", torch.FloatStorage, "0", "cpu", 12) if isinstance(item, torch.FloatStorage) else None


pickled = io.BytesIO()
Writer(pickled, protocol=2).dump({name: View(*view) for name, view in VIEWS.items()})
with zipfile.ZipFile("weights.pth", "w") as archive:
    archive.writestr("weights/data.pkl", pickled.getvalue())
    archive.writestr("weights/byteorder", "little")
    archive.writestr("weights/data/0", struct.pack("<12f", *range(12)))
    archive.writestr("weights/version", "3\n")
PY
DEV=PYTHON "$work/venv/bin/python" - <<'PY'
import importlib.metadata
import sys

from tinygrad.nn.state import torch_load
from views import VIEWS, numbers

print("tinygrad", importlib.metadata.version("tinygrad"))
read = {name: tensor.tolist() for name, tensor in torch_load("weights.pth").items()}
for name, view in VIEWS.items():
    print(f"{name}: {read[name]}, in the file {numbers(*view)}")
right = [name for name, view in VIEWS.items() if read[name] == numbers(*view)]
as_seen = (
    right == ["whole", "transposed", "last two rows"]
    and read["first two columns"] == [[0, 1], [2, 3], [4, 5]]
    and read["rows 0 and 2"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    and read["column 1"] == [1, 2, 3]
)
print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
