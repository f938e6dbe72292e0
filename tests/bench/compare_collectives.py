"""Compares an all-gather and a reduce-scatter between ranks of this host: xrun against the MPI library, in turn.

  compare_collectives.py [--xrun build/release/xrun] [--ranks 2] [--mib 64] [--rounds 5]

Each round runs `xrun bench comm` in one process, then with mpirun, then with mpirun and --messages, and then
mpi_collectives.cpp, which mpicxx compiles first. A rate is the size of the array, divided by the median of nine times in a
round; the table has the median over the rounds, with the smallest and largest in brackets. If root calls the script, Open
MPI needs OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

TIMES = 9


def rates(seconds, args):
    return {name: args.mib * 2**20 / time / 1e9 for name, time in seconds.items()}


def run_xrun(args, mpirun, flags):
    words = mpirun + [args.xrun, "bench", "comm", "--mib", str(args.mib), "--rounds", str(TIMES), "--format", "json"] + flags
    report = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return rates({name: report[name]["median_s"] for name in ("all_gather", "reduce_scatter")}, args)


def run_mpi(args, mpirun, program):
    lines = subprocess.run(mpirun + [program, str(args.mib), str(TIMES)], check=True, capture_output=True, text=True).stdout.split("\n")
    return rates({name: float(time) for name, time in (line.split() for line in lines if line)}, args)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(args.ranks)]
    with tempfile.TemporaryDirectory() as directory:
        program = os.path.join(directory, "mpi_collectives")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_collectives.cpp")
        subprocess.run(["mpicxx", "-O2", "-std=c++17", source, "-o", program], check=True)
        sides = {
            "xrun, one process": lambda: run_xrun(args, [], []),
            "xrun, ranks": lambda: run_xrun(args, mpirun, []),
            "xrun, ranks, messages": lambda: run_xrun(args, mpirun, ["--messages"]),
            "MPI": lambda: run_mpi(args, mpirun, program),
        }
        found = {side: [] for side in sides}
        for _ in range(args.rounds):
            for side, run in sides.items():
                found[side].append(run())
    print(f"{args.ranks} ranks, an array of {args.mib} MiB, {args.rounds} rounds, GB/s\n\n| what | all-gather | reduce-scatter |\n|---|---|---|")
    for side, rounds in found.items():
        cells = []
        for name in ("all_gather", "reduce_scatter"):
            values = [one[name] for one in rounds]
            cells.append(f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})")
        print(f"| {side} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
