#!/usr/bin/env bash
# numba-cuda 0.30.4 (PyPI): with NUMBA_ENABLE_CUDASIM=1, which runs kernels without a GPU, cuda.popc counts the digits
# 1 in the magnitude of a negative number, without a message: popc of the int32 number -1 is 1. It is documented as the
# number of bits set, which is 32. The documentation of the simulator limits only ffs, to numbers of 32 bits.
#
# The Hamming distance of two binary codes is popc(a ^ b). Codes that are kept in int32 give a negative number whenever
# their highest bits differ, so tests that run without a GPU find other nearest codes.
# Seen: from the code 0, the codes 15 and -2 have the distances 4 and 1; they differ from it in 4 and 31 bits. The same
# bits as uint32 give 4 and 31.
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs python3-venv and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
  numba-cuda==0.30.4 numba==0.68.1 cuda-bindings==13.5.0 numpy==2.2.6
NUMBA_ENABLE_CUDASIM=1 "$work/venv/bin/python" - <<'PY'
import importlib.metadata
import sys

import numpy as np
from numba import cuda

CODES = np.array([15, -2], np.int32)


@cuda.jit
def hamming(query, codes, distances):
    place = cuda.grid(1)
    distances[place] = cuda.popc(query[0] ^ codes[place])


def distances(kind):
    result = np.zeros(len(CODES), np.int32)
    hamming[1, len(CODES)](np.zeros(1, kind), CODES.view(kind), result)
    return result.tolist()


bits = np.bitwise_count(CODES.view(np.uint32)).tolist()
signed, unsigned = distances(np.int32), distances(np.uint32)
print("numba-cuda", importlib.metadata.version("numba-cuda"), "without a GPU")
print(f"distances of {CODES.tolist()} from 0: {signed} as int32, {unsigned} as uint32; they differ in {bits} bits")
as_seen = signed == [4, 1] and unsigned == bits == [4, 31]
print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
