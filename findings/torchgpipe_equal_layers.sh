#!/usr/bin/env bash
# torchgpipe 0.0.7 (PyPI): its balance puts almost all layers on one device if their costs are nearly equal. It subtracts
# the smallest cost from all costs before it balances them, so layers of the smallest cost weigh nothing. It also stops
# once two parts differ by at most the largest of the remaining costs.
#
# Seen: 28 layers of cost 100 and 4 layers of cost 101 on 4 devices become parts of 29, 1, 1 and 1 layers. The largest
# part costs 2901; parts of 8 layers would cost at most 804, so the pipeline is 3.6 times slower than it could be. With
# 32 layers of cost 100 all parts have 8 layers. `balance_by_time` and `balance_by_size` use this function.
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs python3-venv and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps torchgpipe==0.0.7
# The function itself needs no PyTorch, which the package would install.
"$work/venv/bin/python" - <<'PY'
import importlib.metadata
import importlib.util
import sys

package = importlib.util.find_spec("torchgpipe").submodule_search_locations[0]
spec = importlib.util.spec_from_file_location("blockpartition", package + "/balance/blockpartition.py")
blockpartition = importlib.util.module_from_spec(spec)
spec.loader.exec_module(blockpartition)


def smallest_maximum(costs, parts):
    """The cost of the largest part of the best cuts, by dynamic programming over prefixes."""
    best = [0.0] + [float("inf")] * len(costs)
    for _ in range(parts):
        best = [0.0] + [
            min(max(best[begin], sum(costs[begin:end])) for begin in range(end)) for end in range(1, len(costs) + 1)
        ]
    return best[-1]


print(f"torchgpipe {importlib.metadata.version('torchgpipe')}, 4 devices")
seen = {}
for name, costs in {"nearly equal": [100] * 28 + [101] * 4, "equal": [100] * 32}.items():
    parts = blockpartition.solve(costs, 4)
    seen[name] = [len(part) for part in parts]
    largest, best = max(map(sum, parts)), smallest_maximum(costs, 4)
    print(f"  {name} costs: layers {seen[name]}, largest part {largest}, best cuts {best:.0f}")
as_seen = seen == {"nearly equal": [29, 1, 1, 1], "equal": [8, 8, 8, 8]}
print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
