#!/usr/bin/env python3
"""Judges all schedules of the kernels of GPUs with the static prover sentryward, and compares the verdicts with the
table tests/golden/gpu/races.txt (scripts/gpu_races.sh; docs/internals/gpu_kernels.md, "Verdicts about races").

    gpu_races.py [--update] [--seconds N] [KERNEL...]

Each kernel of ops/gpu/ptx.tar.xz for compute_90 is judged for the launch in tests/golden/gpu/launches.jsonl, two
kernels at a time, each for at most a minute. --update writes the table, for the given kernels or for all.

Exits with 1 if a verdict is a race that the table does not have, if a kernel is no longer free of races, or if the
prover does not find a planted race; with 77 if sentryward is not installed. A verdict of the table that is not reached
in time is printed, but does not fail.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROVER = os.path.join(ROOT, "build/races-venv/bin/sentryward")
LAUNCHES = os.path.join(ROOT, "tests/golden/gpu/launches.jsonl")
TABLE = os.path.join(ROOT, "tests/golden/gpu/races.txt")

AT_ONCE = 2
FREE = "race_free"
UNDECIDED = "not decided"
RACES = ("potential_race", "not_wellsynced", "invalid_lifecycle")


def kernel_texts():
    """The PTX of each kernel for compute_90: the text of its module without the other kernels."""
    texts = {}
    with tarfile.open(os.path.join(ROOT, "ops/gpu/ptx.tar.xz")) as packed:
        for member in packed:
            if member.name.endswith("_90.ptx"):
                text = packed.extractfile(member).read().decode()
                parts = re.split(r"(?=^\.visible \.entry )", text, flags=re.MULTILINE)
                for part in parts[1:]:
                    end = part.index("\n}\n") + 3
                    tail = parts[-1][parts[-1].index("\n}\n") + 3:]
                    texts[re.match(r"\.visible \.entry (\w+)", part)[1]] = parts[0] + part[:end] + tail
    return texts


def input_of(kernel, text, launch, branches):
    """The input of sentryward. Buffers are objects that do not overlap. Those that the launch lists as `aligned` have
    an address instead, a multiple of 2^20, since the kernel branches on the alignment of these operands. With
    `branches`, a branch that depends on data takes one side."""
    types = re.findall(r"\.param \.(\w+) " + kernel + r"_param_(\d+)", text)
    declarations, arguments = [], []
    for kind, index in types:
        value, name = launch["arguments"][int(index)], f"{kernel}_param_{index}"
        if isinstance(value, int):
            if kind.startswith("u"):
                arguments.append({"parameter": name, "type": kind, "value": value})
        elif value in launch.get("aligned", ()):
            arguments.append({"parameter": name, "type": kind, "value": (int(index) + 1) << 20})
        else:
            declarations.append({"parameter": name, "type": "pointer", "space": "global", "object": f"buffer {index}"})
    return {"schema": "spverify.kernel-input/v1",
            "launch": {"grid_dim": launch["grid"], "block_dim": launch["block"],
                       "dynamic_shared_bytes": launch["shared"]},
            "declarations": declarations, "arguments": arguments, "assumptions": {"representative_branches": branches}}


def result_of(kernel, text, launch, branches, seconds):
    with tempfile.TemporaryDirectory() as work:
        ptx, config = os.path.join(work, "kernel.ptx"), os.path.join(work, "input.json")
        with open(ptx, "w", encoding="ascii") as file:
            file.write(text)
        with open(config, "w", encoding="ascii") as file:
            json.dump(input_of(kernel, text, launch, branches), file)
        done = subprocess.run([PROVER, ptx, "--input", config, "--timeout", str(seconds)], capture_output=True,
                              text=True, check=False)
        return json.loads(done.stdout)


def verdict_of(result):
    verdict = result["result"]
    if verdict in ("timeout", "memory_budget_exceeded", "analysis_budget_exceeded", "allocation_failed"):
        return UNDECIDED
    if verdict == "unsupported":
        return f"unsupported: {result['diagnostics'][0]['code']}"
    return verdict


def judge(kernel, text, launch, seconds):
    """The verdict, and whether it assumes one side of branches that depend on data: the prover first tries without."""
    result = result_of(kernel, text, launch, False, seconds)
    if any(found["code"].endswith("_not_static") for found in result["diagnostics"]):
        return verdict_of(result_of(kernel, text, launch, True, seconds)), "one side"
    return verdict_of(result), "all"


def finds_races(texts, launches, seconds):
    """Whether the prover finds a race where one of the two barriers of a kernel is missing."""
    kernel, barrier = "column_sums_f32", "bar.sync \t0;"
    parts = texts[kernel].split(barrier)
    missing = [parts[0] + parts[1] + barrier + parts[2], parts[0] + barrier + parts[1] + parts[2]]
    return all(judge(kernel, text, launches[kernel], seconds)[0] == "potential_race" for text in missing)


def read_table():
    rows = {}
    with open(TABLE, encoding="ascii") as file:
        for line in file:
            if not line.startswith("#") and line.strip():
                kernel, branches, verdict = re.split(r"\s{2,}", line.strip(), maxsplit=2)
                rows[kernel] = (verdict, branches)
    return rows


def write_table(rows):
    with open(TABLE, encoding="ascii") as file:
        heading = [line for line in file if line.startswith("#")]
    with open(TABLE, "w", encoding="ascii") as file:
        file.writelines(heading)
        for kernel, (verdict, branches) in sorted(rows.items()):
            file.write(f"{kernel:<28}{branches:<10}{verdict}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--seconds", type=int, default=60, help="time limit for a kernel")
    parser.add_argument("kernels", nargs="*")
    options = parser.parse_args()
    if not os.path.exists(PROVER):
        sys.stderr.write("sentryward is not installed: run scripts/gpu_races.sh\n")
        return 77
    with open(LAUNCHES, encoding="ascii") as file:
        launches = {launch["kernel"]: launch for launch in map(json.loads, file)}
    texts, rows = kernel_texts(), read_table()
    kernels = options.kernels or sorted(texts)
    begin, faults, changed = time.monotonic(), [], []
    if not finds_races(texts, launches, options.seconds):
        faults.append("column_sums_f32 without a barrier is not a race")

    def one(kernel):
        started = time.monotonic()
        verdict, branches = judge(kernel, texts[kernel], launches[kernel], options.seconds)
        print(f"{kernel:<28}{branches:<10}{verdict}  ({time.monotonic() - started:.0f} s)", flush=True)
        return kernel, verdict, branches

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for kernel, verdict, branches in pool.map(one, kernels):
            known = rows.get(kernel, (None, None))[0]
            if verdict in RACES and verdict != known:
                faults.append(f"{kernel}: {verdict}")
            elif verdict not in (FREE, UNDECIDED) and known == FREE:
                faults.append(f"{kernel}: {verdict}; the table has {known}")
            elif known is None or verdict.split(":")[0] != known.split(":")[0]:
                changed.append(f"{kernel}: {verdict}; the table has {known}")
            rows[kernel] = verdict, branches
            if options.update:
                write_table({kernel: row for kernel, row in rows.items() if kernel in texts})
    for line in changed:
        print(line)
    for fault in faults:
        sys.stderr.write(fault + "\n")
    print(f"gpu-races: {len(kernels)} kernels in {(time.monotonic() - begin) / 60:.1f} min, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
