"""Compares the step times that plans predict from formulas and from a calibration with those of runs.

  calibrated_times.py [--xrun build/release/xrun] [--cluster here.xgraph] [--only TEXT] [--rounds 1]

Without --cluster, the machine is calibrated first (`xrun bench --calibrate`). A run has one device with one worker. The time
of a step is processor time in user mode, so that other programs and the clearing of new pages have little effect: that of a
run of several steps, minus that of a run of one step, divided by the difference of the steps. It includes the loader, so the
prediction does, too. A cell is the predicted time over the measured one; the median of the
rounds counts. Models are trained on synthetic data, and glyphs on its fonts.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile

TEXT = """xgraph 1

from "std/nets" use {net}

model m {{
  input image: f32[N, 3, {size}, {size}]

  {body}
}}

data made {{
  source train = synthetic([3, {size}, {size}], {classes}, samples=65536)

  image = pixels
}}

train t {{
  batch     = {batch}
  steps     = 100000
  loss      = {loss}
  optimizer = sgd(momentum=0.9)
  lr        = 0.01
}}
"""
DENSE = "logits = image -> {} -> linear(1000)\n  output logits"
HEAD = "feature = image -> {}\n  output feature\n\n  head id = cosine_classifier(feature, 10000)"
MODELS = {
    "ResNet-50, 224 pixels": dict(net="resnet", size=224, classes=1000, batch=16, body=DENSE.format("resnet([3, 4, 6, 3])"),
                                  loss="softmax_ce(logits, label)", steps=4),
    "ViT-S/16, 224 pixels": dict(net="vit", size=224, classes=1000, batch=16, body=DENSE.format("vit(384, 12, 6, 16)"),
                                 loss="softmax_ce(logits, label)", steps=4),
    "MobileFaceNet, 112 pixels": dict(net="mobilefacenet", size=112, classes=10000, batch=64, body=HEAD.format("mobilefacenet"),
                                      loss="arcface(id, label)", steps=5),
    "glyphs": dict(path="models/glyphs.xgraph", batch=256, steps=5),
}
ONE = ["--devices", "1", "--threads", "1"]


def processor_time(words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}:\n{done.stderr}")
    return after.ru_utime - before.ru_utime


def step_time(args, path, sets, steps):
    times = []
    for count in (1, 1 + steps):
        with tempfile.TemporaryDirectory() as out:
            times.append(processor_time([args.xrun, "train", path, *ONE, *sets, "-C", out, "--resume", "never", "--progress", "none",
                                         "--steps", str(count), "--set", "train.checkpoint.every=1M steps"]))
    return (times[1] - times[0]) / steps


def predicted(args, path, sets, flags):
    done = subprocess.run([args.xrun, "plan", path, *ONE, *sets, *flags, "--dry-run", "--format", "json"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{path}:\n{done.stderr}")
    times = json.loads(done.stdout)["predicted"]
    return times["step_seconds"] + times["loader_core_seconds"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--cluster", default="")
    parser.add_argument("--only", default="", help="models whose name has this text")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = args.cluster or os.path.join(folder, "here.xgraph")
        if not args.cluster:
            subprocess.run([args.xrun, "bench", "--calibrate", "-o", cluster], check=True)
        print("| model | measured | formulas | calibrated |")
        print("|---|---|---|---|")
        for name, model in MODELS.items():
            for precision in ("f32", "mixed(bf16)"):
                shown = f"{name}, {'f32' if precision == 'f32' else 'bf16'}"
                if args.only not in shown:
                    continue
                path = model.get("path")
                sets = ["--set", f"train.precision={precision}"] + (["--set", "train.eval.every=1M steps"] if path else [])
                if path is None:
                    path = os.path.join(folder, "m.xgraph")
                    with open(path, "w") as text:
                        text.write(TEXT.format(**model))
                measured = statistics.median(step_time(args, path, sets, model["steps"]) for _ in range(args.rounds))
                ratios = [predicted(args, path, sets, flags) / measured for flags in ([], ["--cluster", cluster])]
                print(f"| {shown} | {model['batch'] / measured:.1f} images/s, {measured:.3g} s a step | {ratios[0]:.2f} | "
                      f"{ratios[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
