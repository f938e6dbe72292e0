"""Compares the step times that plans predict from measured kernel times with the step times of runs.

  predicted_times.py [--xrun build/release/xrun] [--models models] [--rounds 5] [--only TEXT] [--core N]

A run has one device with one worker on one core. Every round runs each model for some seconds; before and after the run, it
measures all kernels again and makes a plan. The prediction is the mean of both plans, since the speed of a shared machine
changes. The measured step time is the time between two lines of the log, divided by the number of steps between them. It
includes computing, data, and all other work of a run. The table gives medians over the rounds, and for the ratio measured /
predicted of each round the median, the smallest and the largest. The loader's share is its processor time in a step divided
by the time of the step: predicted from both numbers of the plan, and measured with the rate of `xrun bench data`. If others
use the core, the step takes longer. Digits need models/digits.csv (scripts/digits.sh), MNIST, Omniglot and the shop
photographs need ../shared/data; a model without its data is reported and skipped. ResNet, ViT and AmoebaNet are small
variants that are trained on synthetic data; the shop photographs are decoded to 64 x 64 for a small ResNet.
"""

import argparse
import glob
import json
import os
import statistics
import subprocess
import tempfile

from compare_glyphs import cpu_name
from compare_grocery import unpack

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
SHOP = """xgraph 1
from "std/nets" use basic_resnet
model shop {{
  input image: f32[N, 3, 64, 64]
  logits = image -> basic_resnet([1, 1, 1, 1]) -> linear(81)
  output logits
}}
data photographs {{
  source train = folder("{folder}/train")
  image = file -> decode(64) -> random_flip -> normalize(mean=127.5, std=127.5)
  label = label -> as_index(81)
}}
train small {{
  batch     = 32
  steps     = 100_000
  loss      = softmax_ce(logits, label)
  optimizer = sgd(momentum=0.9)
  lr        = 0.01
}}
"""
ARCHIVE = "../shared/data/grocery-81/grocery-81-subset.zip"
STEPS = {"digits": 10_000, "mnist": 24, "omniglot": 6, "glyphs": 4, "small ResNet": 16, "small ViT": 16, "small AmoebaNet": 8,
         "shop photographs": 8}
INTERVALS = 5  # number of measured intervals between log lines, after one interval of warm-up


def words(args, path, command):
    return ["taskset", "-c", str(args.core), args.xrun, command, path, "--devices", "1", "--threads", "1", "--cost", "measured"]


def planned(args, path, cache):
    """The predicted time of a step and of its loader, or the first line of the error."""
    for times in glob.glob(os.path.join(cache, "xrun", "times-*")):
        os.remove(times)
    done = subprocess.run(words(args, path, "plan") + ["--dry-run", "--format", "json"], capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": cache})
    if done.returncode != 0:
        return done.stderr.splitlines()[0]
    predicted = json.loads(done.stdout)["predicted"]
    return predicted["step_seconds"], predicted["loader_core_seconds"]


def loader_of_step(args, path):
    """The processor time in which the rows of a step are read and transformed, as `xrun bench data` measures it."""
    done = subprocess.run(["taskset", "-c", str(args.core), args.xrun, "bench", "data", path, "--samples", "500", "--rounds", "3",
                           "--threads", "1", "--format", "json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{path}:\n{done.stderr}")
    figures = json.loads(done.stdout)
    return figures["all"]["median_s"] * figures["batch"]


def measured_step(command, name, steps, of_project, cache=None):
    """The time of a step of a training, the median over intervals of `steps` steps; the models of the project evaluate."""
    with tempfile.TemporaryDirectory() as out:
        flags = ["-C", out, "--resume", "never", "--progress", "json", "--steps", str((INTERVALS + 1) * steps)]
        sets = [f"train.log.every={steps} steps", "train.checkpoint.every=1M steps"]
        sets += ["train.eval.every=1M steps", "train.epochs=10000"] if of_project else []
        caches = {"XDG_CACHE_HOME": cache} if cache else {}
        done = subprocess.run(command + flags + [word for one in sets for word in ("--set", one)], capture_output=True,
                              text=True, env={**os.environ, **caches})
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
        if os.path.exists(ARCHIVE):
            unpack(ARCHIVE, folder)
            paths["shop photographs"] = os.path.join(folder, "shop.xgraph")
            with open(paths["shop photographs"], "w") as text:
                text.write(SHOP.format(folder=folder))
        pairs = {}
        for _ in range(args.rounds):
            for name, path in paths.items():
                if args.only not in name or (name in pairs and not pairs[name]):
                    continue
                before = planned(args, path, cache)
                if isinstance(before, str):
                    print(f"{name} is left out: {before}")
                    pairs[name] = []
                    continue
                loader = loader_of_step(args, path)
                measured = measured_step(words(args, path, "train"), name, STEPS[name],
                                         name not in SMALL and name != "shop photographs", cache)
                after = planned(args, path, cache)
                pairs.setdefault(name, []).append(((before[0] + after[0]) / 2, measured, (before[1] + after[1]) / 2, loader))

    print(f"{cpu_name()}, one core, {args.rounds} rounds, medians; measured / predicted of each round\n")
    print("| model | predicted | measured | measured / predicted | of the rounds | loader's share, predicted | measured |")
    print("|---|---|---|---|---|---|---|")
    for name, rounds in pairs.items():
        if rounds:
            ratios = [one[1] / one[0] for one in rounds]
            shares = [statistics.median(one[2 + i] / one[i] for one in rounds) for i in (0, 1)]
            middle = [1e3 * statistics.median(one[i] for one in rounds) for i in (0, 1)]
            print(f"| {name} | {middle[0]:.3g} ms | {middle[1]:.3g} ms | {statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} | "
                  f"{shares[0]:.4f} | {shares[1]:.4f} |")


if __name__ == "__main__":
    main()
