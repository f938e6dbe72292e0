#!/usr/bin/env bash
# faiss-cpu 1.15.1 (PyPI): its 16-bit codes round numbers that lie in the middle of two neighbours away from zero, for
# QT_fp16 and QT_bf16. NumPy, ml_dtypes, PyTorch and the conversions of the processor round them to the even neighbour.
# Rows of a model that was saved in 16 bits elsewhere therefore differ in the last bit from codes made here. In
# QT_bf16, moreover, a NaN whose mantissa has only ones becomes -0.0, so it is no longer seen as a NaN.
#
# Seen: 2049 becomes 2050 in fp16 (NumPy: 2048); 257 becomes 258 and 1 + 2^-8 becomes 1.0078125 in bf16 (ml_dtypes: 256
# and 1); the NaN 0x7FFFFFFF becomes -0.0 in bf16.
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs python3-venv and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check faiss-cpu==1.15.1 numpy==2.2.6 ml_dtypes==0.6.0
"$work/venv/bin/python" - <<'PY'
import sys

import faiss
import ml_dtypes
import numpy as np


def stored(kind, numbers):
    index = faiss.IndexScalarQuantizer(1, kind, faiss.METRIC_L2)
    index.add(np.array(numbers, dtype=np.float32)[:, None])
    return [float(index.reconstruct(i)[0]) for i in range(len(numbers))]


half = [2049.0, 2051.0]
brain = [257.0, 259.0, 1 + 2**-8]
faiss_half = stored(faiss.ScalarQuantizer.QT_fp16, half)
faiss_brain = stored(faiss.ScalarQuantizer.QT_bf16, brain)
numpy_half = np.array(half, np.float32).astype(np.float16).astype(float).tolist()
even_brain = np.array(brain, np.float32).astype(ml_dtypes.bfloat16).astype(float).tolist()
nan = np.array([0x7FFFFFFF], np.uint32).view(np.float32)
faiss_nan = stored(faiss.ScalarQuantizer.QT_bf16, nan)[0]
print("faiss", faiss.__version__)
print(f"fp16 of {half}: faiss {faiss_half}, NumPy {numpy_half}")
print(f"bf16 of {brain}: faiss {faiss_brain}, ml_dtypes {even_brain}")
print(f"bf16 of {nan[0]}: faiss {faiss_nan}")
as_seen = (
    faiss_half == [2050.0, 2052.0]
    and numpy_half == [2048.0, 2052.0]
    and faiss_brain == [258.0, 260.0, 1.0078125]
    and even_brain == [256.0, 260.0, 1.0]
    and faiss_nan == 0.0
)
print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
