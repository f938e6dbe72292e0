"""Compares the samples per second that the plan of `make demo` predicts from formulas with those of its training.

  demo_line.py [--xrun build/release/xrun] [--rounds 3] [--steps 24]

Every round plans and trains the glyph model once with each instruction set of this processor (XRUN_ISA), with the settings of
the demo: two devices, two stages, the head in two shards. The measured speed is that of the steps after the first third. The
table gives medians over the rounds. Goal: within 15 % on an idle machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

from compare_glyphs import cpu_name

FLAGS = ["--devices", "2", "--set", "train.epochs=2", "--set", "schedule.stages=2", "--set", "schedule.shard.character.over=2",
         "--set", "train.log.every=1 steps"]
SETS = ["avx2", "avx512", "avx512_bf16", "amx"]


def run(args, words, isa):
    return subprocess.run([args.xrun] + words, capture_output=True, text=True, env={**os.environ, "XRUN_ISA": isa})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()

    speeds = {isa: [] for isa in SETS}
    for _ in range(args.rounds):
        for isa in list(speeds):
            with tempfile.TemporaryDirectory() as out:
                plan = os.path.join(out, "glyphs.xplan")
                done = run(args, ["plan", "models/glyphs.xgraph", *FLAGS, "-o", plan, "--format", "json"], isa)
                if done.returncode != 0:
                    print(f"{isa} is left out: {done.stderr.splitlines()[0]}")
                    del speeds[isa]
                    continue
                predicted = 256 / json.loads(done.stdout)["predicted"]["step_seconds"]
                done = run(args, ["train", plan, "-C", out, "--progress", "json", "--steps", str(args.steps)], isa)
                if done.returncode != 0:
                    raise SystemExit(done.stderr)
            steps = [e for e in map(json.loads, done.stdout.splitlines()) if e["t"] == "step"][args.steps // 3:]
            speeds[isa].append((predicted, 256 / statistics.median(e["step_s"] for e in steps)))

    print(f"{cpu_name()}, {args.rounds} rounds of {args.steps} steps, medians\n")
    print("| XRUN_ISA | predicted | measured | predicted / measured |")
    print("|---|---|---|---|")
    for isa, rounds in speeds.items():
        predicted, measured = (statistics.median(one[i] for one in rounds) for i in (0, 1))
        print(f"| {isa} | {predicted:.0f} samples/s | {measured:.0f} samples/s | {predicted / measured:.2f} |")


if __name__ == "__main__":
    main()
