"""Measures the accuracy that active classes and narrow formats of class rows cost, on real glyphs.

  active_accuracy.py DIR [--xrun build/release/xrun] [--width 16] [--dim 128] [--epochs 4] [--seeds 1 2 3]
                     [--only NAME ...] [--table]

Trains one run for each choice and seed. Each run has its own directory in DIR and is done only once: when the program is
started again, it does only the missing runs, and continues an interrupted run from its last checkpoint. The model, data
and margin are those of models/glyphs.xgraph, with `--width` channels in the first block and features of `--dim` elements.
The optimizer is SGD with momentum; rows of classes that are not active catch up (`untouched = exact`). For each source,
the table gives the mean accuracy over seeds, and the difference from the run `all` with the same seed: mean, smallest and
largest, all in percent. With --table, only the table is printed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

MODEL = """xgraph 1

from "{base}" use basic, fonts

model glyphs {{
  input image: f32[N, 1, 32, 32]

  feature = image
    -> conv({width}, 3, stride=2) -> bn -> relu
    -> conv(2 * {width}, 3) -> bn -> relu
    -> conv(2 * {width}, 3, stride=2) -> bn -> relu -> basic
    -> conv(4 * {width}, 3, stride=2) -> bn -> relu -> basic
    -> flatten -> dropout(0.1) -> linear({dim}, bias=false) as embed -> bn
  output feature

  head character = cosine_classifier(feature, 20_902)
}}
"""

TRAIN = """
train cosine {{
  batch     = {batch}
  norm_rows = {norm_rows}
  epochs    = {epochs}
  seed      = {seed}
  loss      = cosface(character, label, margin=0.15, scale=24)
  optimizer = sgd(momentum=0.9, weight_decay={decay})
  lr        = [warmup(0 .. {rate}, 500 steps), cosine({rate} .. 0)]
  precision = mixed(bf16)
  {active}
  groups {{
    character {{
      lr           = {head_rate}
      weight_decay = 0
      {rows}
    }}
  }}
  eval {{
    every   = 1 epoch
    yen     = accuracy(character, label, source=yen)
    unifont = accuracy(character, label, source=unifont)
  }}
}}
"""

# 1 % of the classes are 209 classes. With a batch of 32, these are the four nearest classes of each target and a few
# random classes.
NEIGHBOURS = {"10%": 32, "1%": 4}
KNN = "knn(neighbours={neighbours}, active={share}, rebuild=0.1 epochs, log_q={log_q})"
SAMPLE = "sample({share}, log_q={log_q})"


def active(kind, share, log_q):
    return "active_classes = " + kind.format(neighbours=NEIGHBOURS[share], share=share, log_q=log_q), "untouched = exact"


CHOICES = {  # name: the setting of active classes, and the setting for rows that a step does not use
    "all": ("", ""),
    "knn 1 %, logQ": active(KNN, "1%", "true"),
    "knn 10 %, logQ": active(KNN, "10%", "true"),
    "sample 1 %, logQ": active(SAMPLE, "1%", "true"),
    "knn 1 %": active(KNN, "1%", "false"),
    "sample 1 %": active(SAMPLE, "1%", "false"),
    "all, bf16 rows": ("", "weights = bf16"),
    "all, fp8 rows": ("", "weights = fp8"),
    "knn 10 %": active(KNN, "10%", "false"),
    "sample 10 %, logQ": active(SAMPLE, "10%", "true"),
    "sample 10 %": active(SAMPLE, "10%", "false"),
}


def text(args, name, seed):
    active_classes, rows = CHOICES[name]
    return (MODEL + TRAIN).format(base=os.path.abspath(args.glyphs), active=active_classes, rows=rows, seed=seed, epochs=args.epochs, width=args.width, dim=args.dim,
                       batch=args.batch, norm_rows=min(64, args.batch), rate=args.rate, head_rate=args.head_rate, decay=args.decay)


def accuracies(directory):
    """Returns the accuracies of the last evaluation by source, and the seconds of the run; None if it has not ended."""
    last, seconds = None, None
    for root, _, names in os.walk(os.path.join(directory, "ckpt")):
        if "log.jsonl" in names:
            with open(os.path.join(root, "log.jsonl")) as lines:
                for line in lines:
                    event = json.loads(line)
                    last = event["metrics"] if event["t"] == "eval" else last
                    seconds = event["seconds"] if event["t"] == "end" and event.get("exit") == 0 else seconds
    return (last, seconds) if last and seconds else None


def train_once(base, name, seed, text, command):
    """Trains the model `text` with `command` in its own directory below `base`, unless this is done already.

    Returns accuracies() of the directory.
    """
    directory = os.path.join(base, f"{name.replace(' ', '').replace('%', '').replace(',', '-')}-{seed}")
    os.makedirs(directory, exist_ok=True)
    found = accuracies(directory)
    if found is None and command:
        with open(os.path.join(directory, "model.xgraph"), "w") as model:
            model.write(text)
        with open(os.path.join(directory, "out.txt"), "a") as out:
            done = subprocess.run(command, cwd=directory, stdout=out, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            sys.exit(f"{name}, seed {seed}: exit {done.returncode}; see {directory}/out.txt")
        found = accuracies(directory)
        print(f"{name}, seed {seed}: {found[0]} in {found[1]:.0f} s", flush=True)
    return found


def run(args, name, seed):
    command = None if args.table else [os.path.abspath(args.xrun), "train", "model.xgraph"]
    return train_once(args.dir, name, seed, text(args, name, seed), command)


def table(results, seeds, base="all"):
    exact = {seed: results[(base, seed)][0] for seed in seeds if results.get((base, seed))}
    for name in dict.fromkeys(name for name, _ in results):
        done = {seed: results[(name, seed)][0] for seed in seeds if results.get((name, seed))}
        if not done:
            continue
        cells = [name, f"{len(done)} seeds"]
        for source in next(iter(done.values())):
            mean = 100 * statistics.mean(metrics[source] for metrics in done.values())
            below = [100 * (done[seed][source] - exact[seed][source]) for seed in done if seed in exact]
            cells.append(f"{source} {mean:.2f}" + (f", {statistics.mean(below):+.2f} ({min(below):+.2f} to {max(below):+.2f})" if below and name != base else ""))
        print("| " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--glyphs", default="models/glyphs.xgraph")
    parser.add_argument("--width", type=int, default=16, help="channels of the first block; models/glyphs.xgraph has 32")
    parser.add_argument("--dim", type=int, default=128, help="elements of a feature; models/glyphs.xgraph has 256")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32, help="the targets of a batch are active first, so a small one leaves room for nearest classes")
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--head-rate", type=float, default=20, help="factor of the rate for class weights")
    parser.add_argument("--decay", type=float, default=5e-4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="+", choices=list(CHOICES), default=list(CHOICES))
    parser.add_argument("--table", action="store_true", help="print what is there, and run nothing")
    args = parser.parse_args()
    results = {}
    for seed in args.seeds:  # runs all choices for one seed before the next seed
        for name in args.only:
            results[(name, seed)] = run(args, name, seed)
    table(results, args.seeds)


if __name__ == "__main__":
    main()
