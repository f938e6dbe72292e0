#!/usr/bin/env bash
# onnxslim 0.1.98 (PyPI): slim() multiplies a constant into the weights of the convolution before it whenever only one
# dimension of the constant is not 1, and that dimension equals the number of output channels. Factors of the columns
# or of the rows thus become factors of the channels: the model has the same shapes and returns other numbers, without
# a message. One would expect only factors of the shape [channels, 1, 1] to be merged, as is done for Add.
#
# In ONNX, a constant of shape [n] belongs to the last axis. Windows, masks and positional factors are such constants,
# and sides of 64 and channels of 64 are often equal.
# Seen: for two channels with two columns of ones, the factors [1, 10] give [1, 10] in each channel before slim(), and
# [1, 1] and [10, 10] after it. With three columns it keeps the numbers.
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs python3-venv and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check onnxslim==0.1.98 onnx==1.23.2 numpy==2.2.6
"$work/venv/bin/python" - <<'PY'
import importlib.metadata
import sys

import numpy as np
import onnx
import onnxslim
from onnx.reference import ReferenceEvaluator


def rows(operation, columns):
    """The first row of each channel before and after slim(), for the factors 1, 10, ... of the columns."""
    factors = ",".join(str(10**column) for column in range(columns))
    text = f"""<ir_version: 9, opset_import: ["": 17]>
    graph (float[1, 2, 1, {columns}] x) => (float[1, 2, 1, {columns}] z)
        <float[2, 2, 1, 1] weights = {{1, 0, 0, 1}}, float[{columns}] factors = {{{factors}}}>
    {{
        y = Conv(x, weights)
        z = {operation}(y, factors)
    }}"""
    model = onnx.parser.parse_model(text)
    onnx.checker.check_model(model, full_check=True)
    x = np.ones((1, 2, 1, columns), np.float32)
    before, after = (ReferenceEvaluator(m).run(None, {"x": x})[0] for m in (model, onnxslim.slim(model)))
    print(f"{operation}, {columns} columns: {before[0, :, 0].tolist()}, after slim() {after[0, :, 0].tolist()}")
    return before[0, :, 0].tolist(), after[0, :, 0].tolist()


print("onnxslim", importlib.metadata.version("onnxslim"))
as_seen = rows("Mul", 2) == ([[1, 10], [1, 10]], [[1, 1], [10, 10]])
for operation, columns in (("Mul", 3), ("Add", 2)):
    before, after = rows(operation, columns)
    as_seen = as_seen and before == after
print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
