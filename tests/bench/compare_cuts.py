"""Compares the largest stages of `xrun plan --layer-times` with those of other partitioners, on PipeDream's profiles.

  compare_cuts.py PROFILES --torchgpipe FILE --deepspeed FILE [--xrun build/release/xrun] [--json FILE]

PROFILES is a folder of profiles (NAME.txt). The other two are sources of PyPI's packages, which need no PyTorch here:
torchgpipe/balance/blockpartition.py of torchgpipe 0.0.7 and deepspeed/runtime/utils.py of deepspeed 0.17.5:

  pip download --no-deps torchgpipe==0.0.7     and unpack the wheel
  pip download --no-deps --no-clean deepspeed==0.17.5     its build fails without PyTorch and leaves the sources in $TMPDIR

Their solvers run unchanged: `solve` of torchgpipe on the times of the layers, and `partition_balanced` of DeepSpeed on
the parameters of the layers (`partition_method="parameters"`, its default) and on their times. They cut one order of the
layers: each layer comes after those that it reads, and of the layers that may come next, the one with the smallest number
in its name. `best of order` is the smallest largest stage that cuts of this order have; xrun may also change the order. A
layer takes its forward and its backward time. Layers whose kind begins with `Input` read the batch: they take no time in
xrun, and the others do not get them. A ratio is the largest stage divided by `lower_bound_ms` of xrun, below which no
cuts of any order are. PipeDream's optimizer is not compared: it is not on PyPI.
"""

import argparse
import ast
import heapq
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

STAGES = (2, 4, 8)


def number(values, key):
    return float(re.search(key + r"=([-+.\deE]+)", values)[1])


def number_of(name):
    return int(re.search(r"\d+$", name)[0])


def read_profile(path):
    """Returns the times in ms and the bytes of parameters of the layers of a profile, smallest number first."""
    layers, edges = {}, set()
    for line in path.read_text().splitlines():
        if line.startswith("\t"):
            edges.add(tuple(line[1:].split(" -- ")))
        elif line.strip():
            name, rest = line.split(" -- ", 1)
            kind, values = rest.rsplit(" -- ", 1)
            cost = number(values, "forward_compute_time") + number(values, "backward_compute_time")
            layers[name] = (kind.startswith("Input"), cost, number(values, "parameter_size"))
    waits = {name: sum(to == name for _, to in edges) for name in layers}
    ready = [(number_of(name), name) for name, count in waits.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, name = heapq.heappop(ready)
        order.append(name)
        for source, reader in edges:
            if source == name:
                waits[reader] -= 1
                if waits[reader] == 0:
                    heapq.heappush(ready, (number_of(reader), reader))
    computing = [layers[name] for name in order if not layers[name][0]]
    return [cost for _, cost, _ in computing], [size for _, _, size in computing]


def best_of_order(times, stages):
    """Returns the smallest largest stage of cuts in this order, by bisection over the sums of ranges."""
    def needs(limit):
        count, load = 1, 0.0
        for one in times:
            if load + one > limit:
                count, load = count + 1, 0.0
            load += one
        return count
    low, high = max(max(times), sum(times) / stages), sum(times)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if needs(middle) <= stages else (middle, high)
    return high


def functions_of(path, names):
    """Returns functions of a source, which is not imported as a whole since it imports PyTorch."""
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    if {node.name for node in tree.body} != set(names):
        sys.exit(f"{path} does not have {', '.join(names)}")
    scope = {}
    exec(compile(tree, str(path), "exec"), scope)
    return [scope[name] for name in names]


def import_solve(path):
    scope = {"__name__": "blockpartition"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["solve"]


def largest(times, parts):
    return max(sum(times[begin:end]) for begin, end in zip(parts, parts[1:]))


def run_xrun(xrun, profile, stages):
    words = [xrun, "plan", "--layer-times", str(profile), "--stages", str(stages), "--format", "json"]
    begin = time.monotonic()
    plan = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return plan["bottleneck_ms"], plan["lower_bound_ms"], time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profiles", type=pathlib.Path)
    parser.add_argument("--torchgpipe", type=pathlib.Path, required=True)
    parser.add_argument("--deepspeed", type=pathlib.Path, required=True)
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--json", type=pathlib.Path, help="also write all largest stages to this file")
    args = parser.parse_args()
    solve = import_solve(args.torchgpipe)
    # partition_balanced calls partition_uniform if there are no more layers than stages.
    _, balanced = functions_of(args.deepspeed, ("partition_uniform", "partition_balanced"))
    sides = ("xrun", "best of order", "torchgpipe", "DeepSpeed, parameters", "DeepSpeed, times")
    print("| profile, layers | K | bound, ms | " + " | ".join(sides) + " | xrun, s |\n|---|---|---|" + "---|" * (len(sides) + 1))
    found = []
    for profile in sorted(args.profiles.glob("*.txt")):
        times, parameters = read_profile(profile)
        for stages in STAGES:
            mine, bound, seconds = run_xrun(args.xrun, profile, stages)
            values = (mine,
                      best_of_order(times, stages),
                      max(sum(block) for block in solve(times, stages)),
                      largest(times, balanced(parameters, stages)),
                      largest(times, balanced(times, stages)))
            found.append({"profile": profile.stem, "stages": stages, "bound_ms": bound, **dict(zip(sides, values))})
            print(f"| {profile.stem}, {len(times)} | {stages} | {bound:.3f} | "
                  + " | ".join(f"{value / bound:.4f}" for value in values) + f" | {seconds:.2f} |", flush=True)
    for text, base in (("mean (worst)", "bound_ms"), ("mean (worst), to `best of order`", "best of order")):
        ratios = [[one[side] / one[base] for one in found] for side in sides]
        print(f"| {text} | | | " + " | ".join(f"{statistics.mean(r):.4f} ({max(r):.4f})" for r in ratios) + " | |")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
