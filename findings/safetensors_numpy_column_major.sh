#!/usr/bin/env bash
# safetensors 0.8.0 (PyPI): safetensors.numpy.save writes the memory of an array in column-major order as if it were in
# row-major order, without a message. The transpose of a matrix, or a matrix of numpy.asfortranarray, comes back with
# its numbers in other places. Version 0.7.0 writes the numbers of the array. The docstring asks for contiguous arrays;
# the PyTorch functions of the package refuse other tensors.
#
# Weights of a dense layer are often transposed between frameworks, [in, out] to [out, in], right before they are saved.
# Seen: [[0, 3], [1, 4], [2, 5]], the transpose of [[0, 1, 2], [3, 4, 5]], is read as [[0, 1], [2, 3], [4, 5]].
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs python3-venv and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/save.py" <<'PY'
import numpy as np
import safetensors
from safetensors.numpy import load, save

matrix = np.arange(6, dtype=np.float32).reshape(2, 3).T
print(safetensors.__version__, load(save({"weight": matrix}))["weight"].tolist())
PY
for version in 0.7.0 0.8.0; do
  python3 -m venv "$work/$version"
  "$work/$version/bin/pip" install --quiet --disable-pip-version-check "safetensors==$version" numpy==2.2.6
  "$work/$version/bin/python" "$work/save.py" | tee -a "$work/seen"
done
printf '%s\n' "0.7.0 [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]" "0.8.0 [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]" >"$work/expected"
if cmp -s "$work/seen" "$work/expected"; then
  echo "as seen before"
else
  echo "the behaviour has changed"
  exit 1
fi
