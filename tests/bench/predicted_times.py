"""Compares the step times that plans predict from measured kernel times with the step times of runs.

  predicted_times.py [--xrun build/release/xrun] [--models models] [--rounds 5] [--only TEXT] [--core N]

A run has one device with one worker on one core. Every round runs each model for some seconds; before and after the run, it
measures all kernels again and makes a plan. The prediction is the mean of both plans, since the speed of a shared machine
changes. The measured step time is the time between two lines of the log, divided by the number of steps between them. It
includes computing, data, and all other work of a run. The table gives medians over the rounds, and for the ratio measured /
predicted of each round the median, the smallest and the largest. If others use the core, the step takes longer. Digits need
models/digits.csv (scripts/digits.sh), MNIST and Omniglot need ../shared/data; a model without its data is reported and
skipped. ResNet, ViT and AmoebaNet are small variants that are trained on synthetic data.
"""

import argparse
import glob
import json
import os
import statistics
import subprocess
import tempfile

from compare_glyphs import cpu_name

HEAD = """
data made {{
  source train = synthetic([3, {size}, {size}], 100, 4_096)
  image = pixels
}}

train small {{
  batch     = 32
  steps     = 100_000
  loss      = softmax_ce(logits, label)
  optimizer = sgd(momentum=0.9)
  lr        = 0.01
}}
"""

SMALL = {
    "small ResNet": (64, """from "std/nets" use basic_resnet
model small_resnet {{
  input image: f32[N, 3, {size}, {size}]
  logits = image -> basic_resnet([1, 1, 1, 1]) -> linear(100)
  output logits
}}
"""),
    "small ViT": (32, """from "std/nets" use vit
model small_vit {{
  input image: f32[N, 3, {size}, {size}]
  logits = image -> vit(192, 4, 3, 4) -> linear(100)
  output logits
}}
"""),
    "small AmoebaNet": (32, """from "{models}/amoeba.xgraph" use cell
model small_amoeba {{
  input image: f32[N, 3, {size}, {size}]
  stem    = image -> conv(32, 3) -> bn
  (p, c)  = (stem, stem) -> cell(16) -> repeat 2 {{ cell(16) }} -> cell(32, stride=2)
  (_, r)  = (p, c) -> repeat 2 {{ cell(32) }}
  logits  = r -> relu -> global_avg_pool -> linear(100)
  output logits
}}
"""),
}
STEPS = {"digits": 10_000, "mnist": 24, "omniglot": 6, "glyphs": 4, "small ResNet": 16, "small ViT": 16, "small AmoebaNet": 8}
INTERVALS = 5  # number of measured intervals between log lines, after one interval of warm-up


def words(args, path, command):
    return ["taskset", "-c", str(args.core), args.xrun, command, path, "--devices", "1", "--threads", "1", "--cost", "measured"]


def predicted_step(args, path, cache):
    for times in glob.glob(os.path.join(cache, "xrun", "times-*")):
        os.remove(times)
    done = subprocess.run(words(args, path, "plan") + ["--dry-run", "--format", "json"], capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": cache})
    return json.loads(done.stdout)["predicted"]["step_seconds"] if done.returncode == 0 else done.stderr.splitlines()[0]


def measured_step(args, path, name, cache):
    steps = STEPS[name]
    with tempfile.TemporaryDirectory() as out:
        flags = ["-C", out, "--resume", "never", "--progress", "json", "--steps", str((INTERVALS + 1) * steps)]
        sets = [f"train.log.every={steps} steps", "train.checkpoint.every=1M steps"]
        sets += ["train.eval.every=1M steps", "train.epochs=10000"] if name not in SMALL else []
        done = subprocess.run(words(args, path, "train") + flags + [word for one in sets for word in ("--set", one)],
                              capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": cache})
        if done.returncode != 0:
            raise SystemExit(f"{name}:\n{done.stderr}")
    lines = [e for e in map(json.loads, done.stdout.splitlines()) if e["t"] == "step"]
    return statistics.median((b["time"] - a["time"]) / (b["step"] - a["step"]) for a, b in zip(lines, lines[1:]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--models", default="models")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="models whose name has this text")
    parser.add_argument("--core", type=int, default=0)
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        cache = os.path.join(folder, "cache")
        paths = {name: os.path.join(args.models, name + ".xgraph") for name in ("digits", "mnist", "omniglot", "glyphs")}
        for name, (size, model) in SMALL.items():
            paths[name] = os.path.join(folder, name.replace(" ", "_") + ".xgraph")
            with open(paths[name], "w") as text:
                text.write("xgraph 1\n" + (model + HEAD).format(size=size, models=os.path.abspath(args.models)))
        pairs = {}
        for _ in range(args.rounds):
            for name, path in paths.items():
                if args.only not in name or (name in pairs and not pairs[name]):
                    continue
                predicted = predicted_step(args, path, cache)
                if isinstance(predicted, str):
                    print(f"{name} is left out: {predicted}")
                    pairs[name] = []
                    continue
                measured = measured_step(args, path, name, cache)
                predicted = (predicted + predicted_step(args, path, cache)) / 2
                pairs.setdefault(name, []).append((predicted, measured))

    print(f"{cpu_name()}, one core, {args.rounds} rounds, medians; measured / predicted of each round\n")
    print("| model | predicted | measured | measured / predicted | of the rounds |")
    print("|---|---|---|---|---|")
    for name, rounds in pairs.items():
        if rounds:
            ratios = [measured / predicted for predicted, measured in rounds]
            middle = [1e3 * statistics.median(one[i] for one in rounds) for i in (0, 1)]
            print(f"| {name} | {middle[0]:.3g} ms | {middle[1]:.3g} ms | {statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |")


if __name__ == "__main__":
    main()
