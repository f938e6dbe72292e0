"""Compares the training speeds of two builds of xrun, which run in turn.

  compare_builds.py OLD NEW [--rounds 5] [--only TEXT]

OLD and NEW are xrun binaries. Every round runs each configuration once with each binary, and the order of the binaries
alternates between rounds. The table gives the median of the images per second after warm-up, and for the ratio NEW / OLD of
each pair its median, the smallest and the largest. If the machine is shared, only the ratios are meaningful. Omniglot needs
../shared/data; ResNet-50 is trained on synthetic data.
"""

import argparse
import os
import statistics
import tempfile

import compare_glyphs

RESNET = """xgraph 1

from "{models}/resnet.xgraph" use resnet50

model pictures {{
  input image: f32[N, 3, 112, 112]
  feature = image -> resnet50
  output feature
  head id = cosine_classifier(feature, 1000)
}}

data made {{
  source train = synthetic([3, 112, 112], 1000, 4_096)
  image = pixels
}}

train resnet {{
  batch     = 32
  steps     = 100
  norm_rows = 8
  loss      = softmax_ce(id, label, scale=16)
  optimizer = sgd(momentum=0.9)
  lr        = 0.01
}}
"""

STAGES = ["--devices", "2", "--set", "schedule.stages=2"]
CONFIGS = [
    # name, model, batch, precision, flags
    ("glyphs, one device", "glyphs", 256, "f32", ["--devices", "1"]),
    ("glyphs, one device", "glyphs", 256, "bf16", ["--devices", "1"]),
    ("glyphs, two stages", "glyphs", 256, "f32", STAGES),
    ("glyphs, two stages", "glyphs", 256, "bf16", STAGES),
    ("glyphs, two replicas", "glyphs", 256, "f32", ["--devices", "2", "--set", "schedule.stages=1", "--set", "schedule.replicas=2"]),
    ("glyphs, two replicas", "glyphs", 256, "bf16", ["--devices", "2", "--set", "schedule.stages=1", "--set", "schedule.replicas=2"]),
    ("omniglot, two stages", "omniglot", 128, "f32", STAGES),
    ("ResNet-50 of 112 x 112, two stages", "resnet", 32, "f32", STAGES + ["--set", "schedule.micro_batches=4"]),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--models", default="models")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="configurations whose name has this text")
    args = parser.parse_args()

    speeds = {}  # for each configuration: pairs of images per second (OLD, NEW)
    with tempfile.NamedTemporaryFile("w", suffix=".xgraph") as resnet:
        resnet.write(RESNET.format(models=os.path.abspath(args.models)))
        resnet.flush()
        for index in range(args.rounds):
            for name, model, batch, precision, flags in CONFIGS:
                if args.only not in name:
                    continue
                path = resnet.name if model == "resnet" else os.path.join(args.models, model + ".xgraph")
                steps, warmup = (4, 2) if model == "resnet" else (16, 6)
                pair = {}
                for which in ("old", "new") if index % 2 == 0 else ("new", "old"):
                    run = argparse.Namespace(xrun=getattr(args, which), model=path, threads=2, steps=steps, warmup=warmup, batch=batch)
                    pair[which] = compare_glyphs.run_xrun(run, precision, flags)["images_per_s"]
                speeds.setdefault((name, precision), []).append((pair["old"], pair["new"]))

    print(f"{compare_glyphs.cpu_name()}, 2 threads, {args.rounds} rounds, medians of images/s; ratio new / old of the pairs\n")
    print("| configuration | precision | old | new | ratio | of the pairs |")
    print("|---|---|---|---|---|---|")
    for (name, precision), pairs in speeds.items():
        ratios = [new / old for old, new in pairs]
        print(f"| {name} | {precision} | {statistics.median(p[0] for p in pairs):.0f} | {statistics.median(p[1] for p in pairs):.0f} | "
              f"{statistics.median(ratios):.3f} | {min(ratios):.3f} to {max(ratios):.3f} |")


if __name__ == "__main__":
    main()
