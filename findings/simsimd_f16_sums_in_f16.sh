#!/usr/bin/env bash
# simsimd 6.5.16 (PyPI): on processors with AVX-512 FP16 (Sapphire Rapids and later), the distances of float16 vectors are
# summed in float16, whose largest number is 65504. If a squared length exceeds that, the cosine distance is 0 for vectors
# that are not parallel, and the inner product is infinite. All results are returned as float64. Without these kernels
# (`disable_capability("sapphire")`), and on other processors, the sums are made in float32 and the results are right.
#
# A cosine is defined for vectors of any length, so features are often compared without being normalised. The scores of
# a program then depend on the processor.
# Seen: a = 512 times 20 and b = 20, 10, 20, 10, ... have the cosine distance 0.0513 and the inner product 153600.
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. On a processor without AVX-512 FP16 it can
# only show the right results, and says so. Needs python3-venv and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check simsimd==6.5.16 numpy==2.2.6
"$work/venv/bin/python" - <<'PY'
import importlib.metadata
import math
import sys

import numpy as np
import simsimd

a = np.full(512, 20, np.float16)
b = np.tile(np.array([20, 10], np.float16), 256)


def results():
    return float(simsimd.cosine(a, b)), float(simsimd.inner(a, b))


print(f"simsimd {importlib.metadata.version('simsimd')}: cosine distance and inner product, exactly 0.0513167 and 153600")
has_f16 = simsimd.get_capabilities()["sapphire"]
usual = results()
print("  as installed:            ", usual)
if has_f16:
    simsimd.disable_capability("sapphire")
others = results()
print("  without sums in float16: ", others)
right = math.isclose(others[0], 0.0513167, abs_tol=1e-5) and math.isclose(others[1], 153600, rel_tol=1e-5)
if not has_f16:
    print("this processor has no AVX-512 FP16, so sums in float16 cannot be shown")
    sys.exit(0 if right else 1)
as_seen = right and usual == (0.0, math.inf)
print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
