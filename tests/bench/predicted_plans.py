"""Compares the step times that plans predict from measured kernel times with those of runs, over many plans of seven models.

  predicted_plans.py [--xrun build/release/xrun] [--models models] [--rounds 1] [--only TEXT]

A configuration is a model, a precision and a plan: one device with one or two workers, two stages or two replicas of one
worker each, with several numbers of micro-batches, and heads in one or two shards. Before and after each run all kernels are
measured and a plan is made; the prediction is the mean of both, since the speed of a shared machine changes. The measured
time is the median over intervals between two lines of the log, each divided by its steps. The table gives the medians of the
ratios predicted / measured over the rounds; below it are the mean and the largest distance from 1. The figure of goal P4 is
that of an idle machine with two cores.

Models that are small variants of published ones are trained on synthetic data; so are the identities of the face model.
MNIST and Omniglot need ../shared/data. A model without its data is reported and
skipped.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

from compare_glyphs import PRECISIONS, cpu_name
from predicted_times import HEAD, SMALL, measured_step

FACE = """xgraph 1
from "std/nets" use mobilefacenet
model face {
  input image: f32[N, 3, 112, 112]
  feature = image -> mobilefacenet
  output feature
  head id = cosine_classifier(feature, 10_000)
}
data made {
  source train = synthetic([3, 112, 112], 10_000, 65_536)
  image = pixels
}
train small {
  batch     = 32
  norm_rows = 8
  steps     = 100_000
  loss      = arcface(id, label)
  optimizer = sgd(momentum=0.9)
  lr        = 0.01
}
"""
PROJECT = ("mnist", "omniglot", "glyphs")
STEPS = {"mnist": 4, "omniglot": 3, "glyphs": 2, "small ResNet": 4, "small ViT": 4, "small AmoebaNet": 4, "small face": 2}
BLOCKS = HEAD.replace("batch     = 32", "batch     = 32\n  norm_rows = 8")  # row blocks for four micro-batches

ONE = ["--devices", "1", "--threads"]
TWO = ["--devices", "2", "--threads", "2"]


def settings(**values):
    return [word for key, value in values.items() for word in ("--set", f"schedule.{key}={value}")]


PLANS = {
    "one worker": ONE + ["1"] + settings(micro_batches=1),
    "two workers": ONE + ["2"] + settings(micro_batches=1),
    "two workers, M = 2": ONE + ["2"] + settings(micro_batches=2),
    "two stages, GPipe, M = 4": TWO + settings(stages=2, micro_batches=4, pipeline="gpipe"),
    "two stages, 1F1B, M = 4": TWO + settings(stages=2, micro_batches=4, pipeline="one_f_one_b"),
    "two replicas, M = 2": TWO + settings(stages=1, replicas=2, micro_batches=2),
}


def words(args, path, command, precision, flags):
    return [args.xrun, command, path, "--cost", "measured", "--set", f"train.precision={PRECISIONS[precision]}"] + flags


def predicted(args, path, precision, flags):
    """The predicted time of a step with kernels measured now, or the message of the error."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(words(args, path, "plan", precision, flags) + ["--dry-run", "--format", "json"],
                              capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": cache})
    if done.returncode != 0:
        return json.loads(done.stderr.splitlines()[0])["message"]
    return json.loads(done.stdout)["predicted"]["step_seconds"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--models", default="models")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", action="append", help="configurations whose name has this text; may be given several times")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(args.models, name + ".xgraph") for name in PROJECT}
        texts = {name: "xgraph 1\n" + (model + BLOCKS).format(size=size, models=os.path.abspath(args.models))
                 for name, (size, model) in SMALL.items()}
        for name, text in {**texts, "small face": FACE}.items():
            paths[name] = os.path.join(folder, name.replace(" ", "_") + ".xgraph")
            with open(paths[name], "w") as file:
                file.write(text)
        results = {}
        left_out = set()
        begin = time.time()
        for _ in range(args.rounds):
            for name, path in paths.items():
                for precision in PRECISIONS:
                    for plan, flags in PLANS.items():
                        key = f"{name}, {precision}, {plan}"
                        if not any(text in key for text in args.only or [""]) or key in left_out:
                            continue
                        before = predicted(args, path, precision, flags)
                        if isinstance(before, str):
                            print(f"{key} is left out: {before}", flush=True)
                            left_out.add(key)
                            continue
                        step = measured_step(words(args, path, "train", precision, flags), key, STEPS[name], name in PROJECT)
                        after = predicted(args, path, precision, flags)
                        results.setdefault(key, []).append(((before + after) / 2, step))
                        print(f"{key}: predicted {1e3 * before:.4g} and {1e3 * after:.4g} ms, measured {1e3 * step:.4g} ms",
                              flush=True)

    print(f"\n{cpu_name()}, {args.rounds} rounds, {(time.time() - begin) / 60:.0f} min\n")
    print("| configuration | predicted | measured | predicted / measured |")
    print("|---|---|---|---|")
    distances = []
    for key, rounds in results.items():
        ratio = statistics.median(guess / step for guess, step in rounds)
        distances.append(abs(ratio - 1))
        guess, step = (1e3 * statistics.median(one[i] for one in rounds) for i in (0, 1))
        print(f"| {key} | {guess:.3g} ms | {step:.3g} ms | {ratio:.3f} |")
    if distances:
        print(f"\n{len(distances)} configurations: mean distance {100 * statistics.mean(distances):.1f} %, "
              f"largest {100 * max(distances):.1f} %")


if __name__ == "__main__":
    main()
