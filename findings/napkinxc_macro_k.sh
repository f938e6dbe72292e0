#!/usr/bin/env bash
# napkinxc 0.7.2 (PyPI): the macro measures ignore their argument k and always use 5 places, without a message.
# macro_precision_at_k, macro_recall_at_k and macro_f1_measure_at_k return five numbers for every k; precision_at_k and
# the other measures of the package return k numbers. The last number, which is the measure at k elsewhere, is the one
# at 5 places here.
#
# Seen: with k=1 and with k=6, precision_at_k returns 1 and 6 numbers, and each of the macro measures returns the same 5
# numbers twice. The last macro precision for k=1 is 0.1875 instead of 0.125.
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs python3-venv and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
# The measures need only NumPy and SciPy; the other dependencies download data.
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps napkinxc==0.7.2 numpy==2.2.6 scipy==1.16.3
"$work/venv/bin/python" - <<'PY'
import importlib.metadata
import sys

from napkinxc.metrics import macro_f1_measure_at_k, macro_precision_at_k, macro_recall_at_k, precision_at_k

TRUE = [[0], [1], [7]]
RANKED = [[0, 2, 3, 4, 5, 6], [2, 1, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]]
print("napkinxc", importlib.metadata.version("napkinxc"))
seen = {}
for measure in (precision_at_k, macro_precision_at_k, macro_recall_at_k, macro_f1_measure_at_k):
    seen[measure.__name__] = [[round(float(x), 4) for x in measure(TRUE, RANKED, k=k)] for k in (1, 6)]
    for k, values in zip((1, 6), seen[measure.__name__]):
        print(f"{measure.__name__}, k={k}: {values}")
plain = seen.pop("precision_at_k")
macro = seen["macro_precision_at_k"][0]
as_seen = (
    [len(values) for values in plain] == [1, 6]
    and all(len(one) == 5 and one == six for one, six in seen.values())
    and (macro[0], macro[-1]) == (0.125, 0.1875)
)
print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
