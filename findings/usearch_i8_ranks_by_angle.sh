#!/usr/bin/env bash
# usearch 2.26.6 (PyPI, x86-64): an index with dtype "i8" scales each vector to length 1 before it rounds, whatever the
# metric is. With metric "ip" or "l2sq" the lengths of the vectors are lost without a message, so both metrics rank by
# angle; the distances are in units of the rounded numbers. With "f32" and "bf16" the lengths count.
#
# A classifier head is such a search: the class with the largest inner product wins, and class weights differ in length.
# Seen: for the query (1, 0), "ip" names (10, 10) first with f32 and bf16 (inner products 10 and 1), and (1, 0.1) first
# with i8. "l2sq" gives the vector (20, 0) the distance 0 from the query (1, 0) with i8; it is 361 with f32.
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs python3-venv and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check usearch==2.26.6 numpy==2.2.6
"$work/venv/bin/python" - <<'PY'
import sys

import numpy as np
import usearch
from usearch.index import Index

QUERY = np.array([1, 0], dtype=np.float32)


def search(metric, dtype, vectors):
    index = Index(ndim=2, metric=metric, dtype=dtype)
    for key, vector in enumerate(vectors):
        index.add(key, np.array(vector, dtype=np.float32))
    matches = index.search(QUERY, len(vectors))
    stored = [index.get(key).tolist() for key in range(len(vectors))]
    print(f"{metric:5} {dtype:5} keys {matches.keys.tolist()} distances {matches.distances.tolist()} stored {stored}")
    return matches.keys.tolist(), matches.distances.tolist()


print("usearch", usearch.__version__)
pair = [(10, 10), (1, 0.1)]
order = {dtype: search("ip", dtype, pair)[0] for dtype in ("f32", "bf16", "i8")}
distance = {dtype: search("l2sq", dtype, [(20, 0)])[1][0] for dtype in ("f32", "i8")}
as_seen = order == {"f32": [0, 1], "bf16": [0, 1], "i8": [1, 0]} and distance == {"f32": 361.0, "i8": 0.0}
print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
