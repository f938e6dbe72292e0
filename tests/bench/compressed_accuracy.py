"""Measures the accuracy that compressed gradients cost, on real glyphs trained in four replicas.

  compressed_accuracy.py DIR [--xrun build/release/xrun] [--width 8] [--dim 64] [--epochs 4] [--seeds 1 2 3]
                         [--only NAME ...] [--table]

Each run has its own directory in DIR and is done only once: when the program is started again, it does only the missing
runs, and continues an interrupted run from its last checkpoint. The model, data and margin are those of
models/glyphs.xgraph, with `--width` channels in the first block and features of `--dim` elements. The table is like that of
active_accuracy.py: differences are from the run `dense`, which exchanges whole gradients, with the same seed.
"""

import argparse
import os

from active_accuracy import MODEL, table, train_once

TRAIN = """
train cosine {{
  batch     = 256
  norm_rows = 64
  epochs    = {epochs}
  seed      = {seed}
  loss      = cosface(character, label, margin=0.15, scale=24)
  optimizer = sgd(momentum=0.9, weight_decay=5e-4)
  lr        = [warmup(0 .. {rate}, 500 steps), cosine({rate} .. 0)]
  precision = mixed(bf16)
  {compress}
  groups {{
    character {{
      lr           = 20
      weight_decay = 0
    }}
  }}
  eval {{
    every   = 1 epoch
    yen     = accuracy(character, label, source=yen)
    unifont = accuracy(character, label, source=unifont)
  }}
}}
"""

CHOICES = {
    "dense": "",
    "top-k 0.1 %, warm-up of one epoch": "compress  = topk(0.1%, warmup=1 epochs)",
    "top-k 0.1 %, warm-up of two epochs": "compress  = topk(0.1%, warmup=2 epochs)",
    "top-k 1 %, warm-up of one epoch": "compress  = topk(1%, warmup=1 epochs)",
}


def run(args, name, seed):
    text = (MODEL + TRAIN).format(base=os.path.abspath(args.glyphs), width=args.width, dim=args.dim, seed=seed, epochs=args.epochs, rate=args.rate, compress=CHOICES[name])
    command = [*args.launcher.split(), os.path.abspath(args.xrun), "train", "model.xgraph", "--devices", "4", "--set", "schedule.replicas=4"]
    return train_once(args.dir, name, seed, text, None if args.table else command)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--launcher", default="", help='starts ranks: "mpirun -n 4 --oversubscribe"')
    parser.add_argument("--glyphs", default="models/glyphs.xgraph")
    parser.add_argument("--width", type=int, default=8, help="channels of the first block; models/glyphs.xgraph has 32")
    parser.add_argument("--dim", type=int, default=64, help="elements of a feature; models/glyphs.xgraph has 256")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="+", choices=list(CHOICES), default=list(CHOICES)[:2])
    parser.add_argument("--table", action="store_true", help="print what is there, and run nothing")
    args = parser.parse_args()
    results = {}
    for seed in args.seeds:  # runs all choices for one seed before the next seed
        for name in args.only:
            results[(name, seed)] = run(args, name, seed)
    table(results, args.seeds, "dense")


if __name__ == "__main__":
    main()
