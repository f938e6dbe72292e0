"""Compares the simulated step of pipelines with the same program run by the clock (`xrun simulate --wall`).

  wall_times.py [--xrun build/release/xrun] [--steps 3] [--noise 5%] [--seed 1] [--only TEXT]

The model is a chain of linear layers with a head of 5,000 classes, on a modelled cluster of nodes with one core each and
Ethernet of 10 Gbit/s. Pipelines have four and eight stages, with one stage on each node, or two for `interleaved` and `zb_v`,
and 4, 8 and 16 micro-batches. The columns are the step that the simulator predicts without noise, the medians over the
steps of the prediction with the noise of each step and of the time by the clock, and the ratio of both: median, smallest and
largest. The last lines give for each schedule and for all rows the mean and the largest distance of the median ratio from
1. Threads that sleep need little processor time, but on a busy machine they wake up late.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

MODEL = """xgraph 1

option classes: int = 5000

model deep {
  input x: f32[N, 256]

  feature = x -> linear(512) -> relu -> repeat 14 { linear(512) -> relu } -> linear(128)
  output feature

  head id = cosine_classifier(feature, classes)
}

data made {
  source train = synthetic([256], classes, 6400)

  x = pixels
}

train quick {
  batch     = 256
  epochs    = 3
  norm_rows = 8
  loss      = cosface(id, label, margin=0.05, scale=12)
  optimizer = sgd(momentum=0.9)
  lr        = 0.01
}
"""
CLUSTER = """xgraph 1

cluster rack {
  nodes   = 8
  network = ethernet(10Gbit/s)
  reserve = 1GiB
  node {
    cores  = 1
    memory = 16GiB
  }
}
"""
STAGES_OF_A_NODE = {"gpipe": 1, "one_f_one_b": 1, "interleaved(chunks=2)": 2, "zb_v": 2, "zero_bubble": 1}


def run(args, directory, pipeline, stages, micro_batches):
    words = [os.path.abspath(args.xrun), "simulate", "deep.xgraph", "--cluster", "rack.xgraph", "--wall", "--format", "json"]
    for key, value in {
        "cluster.nodes": stages // STAGES_OF_A_NODE[pipeline],
        "schedule.stages": stages,
        "schedule.replicas": 1,
        "schedule.pipeline": pipeline,
        "schedule.micro_batches": micro_batches,
    }.items():
        words += ["--set", f"{key}={value}"]
    words += ["--steps", str(args.steps), "--noise", args.noise, "--seed", str(args.seed)]
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip().splitlines()[0]


def distances(name, ratios):
    far = [100 * abs(ratio - 1) for ratio in ratios]
    return f"{name}: {statistics.mean(far):.1f} % in the mean, {max(far):.1f} % at most ({len(far)} rows)"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--noise", default="5%")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    args = parser.parse_args()

    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {args.steps} steps, noise {args.noise}, seed {args.seed}\n")
    print("| pipeline | stages | devices | micro-batches | predicted | with noise | by the clock | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    ratios = {}
    with tempfile.TemporaryDirectory() as directory:
        for name, text in {"deep": MODEL, "rack": CLUSTER}.items():
            with open(os.path.join(directory, name + ".xgraph"), "w", encoding="utf-8") as file:
                file.write(text)
        for pipeline, together in STAGES_OF_A_NODE.items():
            for stages in (4, 8) if args.only in pipeline else ():
                for micro_batches in (4, 8, 16):
                    row = f"| {pipeline} | {stages} | {stages // together} | {micro_batches} |"
                    made = run(args, directory, pipeline, stages, micro_batches)
                    if isinstance(made, str):
                        print(f"{row} {made} |", flush=True)
                        continue
                    ratio = made["ratio"]
                    ratios.setdefault(pipeline, []).append(ratio["median"])
                    times = [made["predicted_seconds"], made["predicted_with_noise_seconds"]["median"],
                             made["wall_seconds"]["median"]]
                    print(row, " | ".join(f"{1e3 * time:.2f} ms" for time in times),
                          f"| {ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f}) |", flush=True)
    print()
    for pipeline, some in ratios.items():
        print(distances(pipeline, some))
    if ratios:
        print(distances("all", [ratio for some in ratios.values() for ratio in some]))


if __name__ == "__main__":
    main()
