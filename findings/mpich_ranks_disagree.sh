#!/usr/bin/env bash
# mpich 5.0.2 (PyPI): if one process gives a NaN to MPI_Allreduce with MPI_MAX or MPI_MIN, the processes receive
# different results, without a message. One would expect a NaN on all of them, or the same other number: the MPI
# standard requires that all processes of the call receive identical results. MPI_SUM gives a NaN to all of them.
#
# The largest gradient of all processes often decides whether they all skip a step. If they disagree, only some of them
# update their weights, and the copies of the model differ from then on.
# Seen: for the numbers NaN, 2, 3 and 4 on four processes, MPI_MIN returns 2, 3, 2 and NaN, and MPI_MAX returns 4, 4, 4
# and NaN. For 1, 2, 3 and 4, all receive the same number. Open MPI 5.0.11 returns NaN to all four.
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs python3-venv and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check mpich==5.0.2 mpi4py==4.1.2 numpy==2.2.6
cat >"$work/reduce.py" <<'PY'
import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
own = np.array([world.rank + 1], np.float32)
with_nan = np.array([np.nan], np.float32) if world.rank == 0 else own


def results(number, operation):
    result = np.empty_like(number)
    world.Allreduce(number, result, operation)
    return [str(value) for value in world.allgather(float(result[0]))]


seen = {}
for name, operation in {"sum": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN}.items():
    seen[name] = results(own, operation), results(with_nan, operation)
as_seen = seen == {
    "sum": (["10.0"] * 4, ["nan"] * 4),
    "max": (["4.0"] * 4, ["4.0", "4.0", "4.0", "nan"]),
    "min": (["1.0"] * 4, ["2.0", "3.0", "2.0", "nan"]),
}
if world.rank == 0:
    print(MPI.Get_library_version().splitlines()[0], "with", world.size, "processes")
    for name, (numbers, nans) in seen.items():
        print(f"{name}: {', '.join(numbers)}; with a NaN: {', '.join(nans)}")
    print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
"$work/venv/bin/mpiexec" -n 4 "$work/venv/bin/python" "$work/reduce.py"
