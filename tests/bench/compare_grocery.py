"""Compares accuracies on the shop photographs of grocery-81: xrun and PyTorch with torchvision's augmentation.

  compare_grocery.py ARCHIVE DIR --torch PYTHON [--xrun build/release/xrun] [--seeds 5] [--epochs 20]

ARCHIVE is grocery-81-subset.zip; its pictures are unpacked to DIR. Both programs train the network below for each seed, in
turn, on the same files with the same augmentation, batch, optimizer and rates; random numbers differ. Prints the accuracy of
each run, and for both programs the mean and its standard error. The exit status is 1 if the means differ by more than two
standard errors of their difference.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import zipfile

MODEL = """xgraph 1

block basic(x: [N, C, H, W]) -> [N, C, H, W] {{
  return relu(x + (x -> conv(C, 3) -> bn -> relu -> conv(C, 3) -> bn))
}}

model grocery {{
  input image: f32[N, 3, 64, 64]

  feature = image
    -> conv(32, 3, stride=2) -> bn -> relu
    -> conv(64, 3, stride=2) -> bn -> relu
    -> conv(128, 3, stride=2) -> bn -> relu -> basic
    -> conv(256, 3, stride=2) -> bn -> relu
    -> global_avg_pool

  head product = classifier(feature, 81)
}}

data pictures {{
  source train = folder("train")
  source test  = folder("test")

  image = file -> decode -> random_resized_crop(64, area=[0.35, 1]) -> random_flip -> normalize(mean=127.5, std=127.5)
    -> random_erasing(0.25)
  label = label -> as_index(81)
}}

train grocery {{
  batch     = {batch}
  norm_rows = {batch}
  epochs    = {epochs}
  seed      = {seed}
  loss      = softmax_ce(product, label)
  optimizer = sgd(momentum=0.9, weight_decay=5e-4)
  lr        = [warmup(0 .. {rate}, 2 epochs), cosine({rate} .. 0)]
  eval {{
    every = {epochs} epochs
    test  = accuracy(product, label, source=test)
  }}
}}
"""


def unpack(archive, directory):
    """Writes the pictures of a class to DIRECTORY/SET/CLASS."""
    with zipfile.ZipFile(archive) as packed:
        for name in packed.namelist():
            if name.endswith(".jpg"):
                parts = name.split("/")
                place = os.path.join(directory, parts[0], parts[-2])
                os.makedirs(place, exist_ok=True)
                with open(os.path.join(place, parts[-1]), "wb") as file:
                    file.write(packed.read(name))


def run(words, directory):
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()


def run_xrun(args, seed):
    with open(os.path.join(args.dir, "grocery.xgraph"), "w") as file:
        file.write(MODEL.format(batch=args.batch, epochs=args.epochs, seed=seed, rate=args.rate))
    lines = run([os.path.abspath(args.xrun), "train", "grocery.xgraph", "-C", f"ckpt/{seed}", "--resume", "never", "--overwrite",
                 "--devices", "1", "--threads", str(args.threads), "--progress", "json"], args.dir)
    return [event["metrics"]["test"] for event in map(json.loads, lines) if event["t"] == "eval"][-1]


def run_torch(args, seed):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_grocery.py")
    lines = run([args.torch, script, ".", "--seed", str(seed), "--epochs", str(args.epochs), "--batch", str(args.batch),
                 "--rate", str(args.rate), "--threads", str(args.threads)], args.dir)
    return json.loads(lines[-1])["accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive")
    parser.add_argument("dir")
    parser.add_argument("--torch", required=True, help="a Python with PyTorch, torchvision and Pillow")
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=54)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    unpack(args.archive, args.dir)
    results = {"xrun": [], "PyTorch": []}
    for seed in range(1, args.seeds + 1):
        results["xrun"].append(100 * run_xrun(args, seed))
        results["PyTorch"].append(100 * run_torch(args, seed))
        print(f"seed {seed}: xrun {results['xrun'][-1]:.2f} %, PyTorch {results['PyTorch'][-1]:.2f} %", flush=True)

    errors = {name: statistics.stdev(found) / math.sqrt(len(found)) for name, found in results.items()}
    means = {name: statistics.mean(found) for name, found in results.items()}
    for name in results:
        print(f"{name}: mean {means[name]:.2f} %, standard error {errors[name]:.2f}")
    difference, error = means["xrun"] - means["PyTorch"], math.hypot(*errors.values())
    print(f"difference {difference:+.2f} points, standard error {error:.2f}")
    sys.exit(abs(difference) > 2 * error)


if __name__ == "__main__":
    main()
