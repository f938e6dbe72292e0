"""Compares growing batches with falling learning rates: the glyph model by SGD, LARS and AdamW.

  growth_accuracy.py DIR [--xrun build/release/xrun] [--width 8] [--dim 96] [--seed 1] [--only NAME ...]

SGD uses a step decay of the rate, LARS uses fccs, and AdamW a cosine schedule. Each run has its own directory in DIR and is
done only once: when the program is started again, it does only the missing runs, and continues an interrupted run from its
last checkpoint. The model, data and margin are those of models/glyphs.xgraph, with `--width` channels in the first block and
features of `--dim` elements. At the end, the accuracies on both test fonts are printed.
"""

import argparse
import os

from active_accuracy import MODEL, train_once

TRAIN = """
train cosine {{
  batch     = {batch}
  norm_rows = 64
  epochs    = {epochs}
  seed      = {seed}
  loss      = cosface(character, label, margin=0.15, scale=24)
  optimizer = {optimizer}
  lr        = {rate}
  precision = mixed(bf16)
  groups {{
    character {{
      lr           = {head_rate}
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

CHOICES = {  # batch, epochs, optimizer, learning rate, factor of the rate for class weights
    "sgd, steps, 10 epochs": ("128", 10, "sgd(momentum=0.9, weight_decay=1e-4)",
                              "[warmup(0 .. 0.1, 0.5 epochs), steps(0.1, at=[4 epochs, 7 epochs, 9 epochs])]", 20),
    "lars, fccs, 4 epochs": ("grow(128 .. 512, over=2 epochs, after=0.5 epochs)", 4, "lars(momentum=0.9, weight_decay=5e-4, trust=0.02)", "fccs(0.5)", 3),
    "adamw, cosine, 4 epochs": ("512", 4, "adamw(weight_decay=0.02)", "[warmup(0 .. 4e-3, 0.3 epochs), cosine(4e-3 .. 0)]", 1),
}


def run(args, name):
    batch, epochs, optimizer, rate, head_rate = CHOICES[name]
    text = (MODEL + TRAIN).format(base=os.path.abspath(args.glyphs), width=args.width, dim=args.dim, seed=args.seed, batch=batch, epochs=epochs,
                                  optimizer=optimizer, rate=rate, head_rate=head_rate)
    return train_once(args.dir, name, args.seed, text, [os.path.abspath(args.xrun), "train", "model.xgraph"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--glyphs", default="models/glyphs.xgraph")
    parser.add_argument("--width", type=int, default=8, help="channels of the first block; models/glyphs.xgraph has 32")
    parser.add_argument("--dim", type=int, default=96, help="elements of a feature; models/glyphs.xgraph has 256")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(CHOICES), default=list(CHOICES))
    args = parser.parse_args()
    results = {name: run(args, name) for name in args.only}
    for name, (metrics, seconds) in results.items():
        print(f"{name}: " + ", ".join(f"{source} {100 * value:.2f} %" for source, value in metrics.items()) + f", {seconds:.0f} s")


if __name__ == "__main__":
    main()
