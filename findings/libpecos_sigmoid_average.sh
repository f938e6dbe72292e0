#!/usr/bin/env bash
# libpecos 1.2.8 (PyPI): CsrEnsembler.sigmoid_average replaces the scores of the predictions it is given by their
# sigmoids. A second call on the same predictions returns other scores, and everything computed from them later
# differs. One would expect the arguments to stay as they are, as they do for average, rank_average, softmax_average
# and round_robin; the docstring does not mention the change.
#
# print_ens compares such methods on one set of predictions, so its figures depend on their order.
# Seen: for two models, average has a precision of 100 % at 1 place, and of 0 % if sigmoid_average is listed before it.
# The best score of sigmoid_average is 0.982 in the first call and 0.7275 in the second.
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs python3-venv and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
# The functions need only NumPy and SciPy; the other dependencies include PyTorch.
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps libpecos==1.2.8 numpy==1.26.4 scipy==1.13.1
"$work/venv/bin/python" - <<'PY'
import contextlib
import importlib.metadata
import io
import sys

import numpy as np
from pecos.utils.smat_util import CsrEnsembler
from scipy.sparse import csr_matrix

# Only the first model knows the true label 0; both know label 1.
TRUTH = csr_matrix(np.array([[1, 0, 0]], np.float32))
SCORES = [[10, 4, 0]], [[0, 4, 1]]


def predictions():
    return [csr_matrix(np.array(scores, np.float32)) for scores in SCORES]


def figures(methods):
    """The precision at 1 place, in percent, that print_ens prints for each method."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        CsrEnsembler.print_ens(TRUTH, predictions(), ["first", "second"], methods, topk=1)
    precisions = [float(line.split("=")[1]) for line in text.getvalue().splitlines() if line.startswith("prec")]
    return dict(zip(methods, precisions[2:]))


print("libpecos", importlib.metadata.version("libpecos"))
orders = [figures(order) for order in (["average", "sigmoid_average"], ["sigmoid_average", "average"])]
print("precision in percent:", *orders)
changed = []
for method in ("average", "rank_average", "softmax_average", "round_robin", "sigmoid_average"):
    given = predictions()
    scores = [round(float(getattr(CsrEnsembler, method)(*given).max()), 4) for _ in range(2)]
    same = all(np.array_equal(matrix.toarray(), before) for matrix, before in zip(given, SCORES))
    changed += [] if same else [method]
    print(f"{method}: best score {scores[0]}, again {scores[1]}, predictions {'unchanged' if same else 'changed'}")
as_seen = orders == [{"average": 100, "sigmoid_average": 0}, {"sigmoid_average": 0, "average": 0}]
as_seen = as_seen and changed == ["sigmoid_average"] and scores == [0.982, 0.7275]
print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
