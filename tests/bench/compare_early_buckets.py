"""Compares two builds of xrun on two hosts with a slow network, where replicas exchange gradients that weigh most of the step.

  compare_early_buckets.py OLD NEW [--rate 1gbit] [--rounds 5] [--mib 64]

OLD and NEW are xrun binaries. The hosts are network namespaces of this machine (scripts/hosts.sh), with one core each, and `tc`
limits their links to --rate, which the planner reads from a cluster file; needs root, iproute2 and Open MPI. Every round trains
a network of four dense layers with --mib MiB of weights once with each binary, and the order of the binaries alternates between
rounds. The table gives the median of the images per second after warm-up, and for the ratio NEW / OLD of each pair its median,
the smallest and the largest; then the same for one process that trains with two devices. All runs are deterministic, and the
script ends with an error if their weights differ.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

MODEL = """xgraph 1

model wide {{
  input x: f32[N, {width}]
  feature = x -> linear({width}) -> relu -> linear({width}) -> relu -> linear({width}) -> relu -> linear({width})
  output feature
  head id = classifier(feature, 64)
}}

data made {{
  source train = synthetic([{width}], 64, 4_096)
  x = pixels
}}

train wide {{
  batch     = {batch}
  steps     = 100
  loss      = softmax_ce(id, label)
  optimizer = sgd(momentum=0.9)
  lr        = 0.01
}}
"""

FLAGS = ["--devices", "2", "--deterministic", "--set", "schedule.stages=1", "--set", "schedule.replicas=2", "--set", "schedule.bucket=4MiB",
         "--set", "train.log.every=1 steps", "--progress", "json", "--resume", "never"]


CLUSTER = """xgraph 1

cluster two {{
  nodes = 2
  node {{ cores = 1  memory = 8GiB }}
  network = ethernet({rate})
}}
"""


def run(args, prefix, xrun, words, model):
    """Returns images per second over the steps after warm-up, and the digest of the weights."""
    with tempfile.TemporaryDirectory() as out:
        command = prefix + [os.path.abspath(xrun), "train", model, "-C", out, "--steps", str(args.warmup + args.steps)] + FLAGS + words
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    steps = [event for event in events if event["t"] == "step"][args.warmup:]
    seconds = sum(event["step_s"] for event in steps)
    return len(steps) * args.batch / seconds, next(event["weights"] for event in events if event["t"] == "end")


def compare(args, name, prefix, words, model):
    pairs, weights = [], set()
    for index in range(args.rounds):
        speed = {}
        for which in ("old", "new") if index % 2 == 0 else ("new", "old"):
            speed[which], digest = run(args, prefix, getattr(args, which), words, model)
            weights.add(digest)
        pairs.append((speed["old"], speed["new"]))
    ratios = [new / old for old, new in pairs]
    old, new = (statistics.median(side) for side in zip(*pairs))
    print(f"| {name} | {old:.0f} | {new:.0f} | {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) |")
    return weights


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--warmup", type=int, default=4)
    args = parser.parse_args()
    hosts = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/hosts.sh")
    name = f"early{os.getpid()}"
    width = int((args.mib * 2**20 / 4 / 4) ** 0.5)
    print(f"{args.mib} MiB of gradients, links of {args.rate}, {args.rounds} rounds\n")
    print("| run | old, images/s | new, images/s | new / old |\n|---|---|---|---|")
    with tempfile.NamedTemporaryFile("w", suffix=".xgraph") as model, tempfile.NamedTemporaryFile("w", suffix=".xgraph") as cluster:
        model.write(MODEL.format(width=width, batch=args.batch))
        model.flush()
        cluster.write(CLUSTER.format(rate=args.rate.replace("gbit", "Gbit/s").replace("mbit", "Mbit/s")))
        cluster.flush()
        subprocess.run([hosts, "up", name, "2"], check=True)
        try:
            for host in range(2):
                subprocess.run([hosts, "rate", f"{name}-{host}", args.rate], check=True)
            weights = compare(args, "two hosts", [hosts, "mpirun", name, "2"], ["--cluster", cluster.name], model.name)
        finally:
            subprocess.run([hosts, "down", name], check=True)
        weights |= compare(args, "one process", [], [], model.name)
    if len(weights) != 1:
        raise SystemExit(f"the runs have different weights: {weights}")


if __name__ == "__main__":
    main()
