"""Compares decoding and resizing of JPEG files in xrun and in torchvision, in turn, with the same files and threads.

  compare_decoding.py ARCHIVE [--xrun build/release/xrun] [--sizes 32 112 224] [--rounds 7] [--threads 2]

Runs in a Python that has PyTorch and torchvision. ARCHIVE is a zip of directories of JPEG files, such as
grocery-81-subset.zip. xrun reads it by the loader of `xrun bench data`, whose rate includes reading the archive and writing
f32 batches. torchvision decodes files that are in memory already (`io.decode_jpeg`, then `resize` with antialiasing, then
f32) with as many threads. A ratio divides the samples per second of xrun by those of torchvision in the same round; the
table has the medians, smallest and largest values. `fast` is decode(size, fast=true).
"""

import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import tempfile
import time
import zipfile

import torch
import torchvision
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms.v2 import functional

MODEL = """xgraph 1
model m {{
  input x: f32[N, 3, {size}, {size}]
  logits = x -> flatten -> linear(2)
  output logits
}}
data d {{
  source train = folder(["{archive}"])
  x = file -> decode({size}{fast})
}}
"""


def run_xrun(args, folder, size, fast):
    path = os.path.join(folder, "decode.xgraph")
    with open(path, "w") as file:
        file.write(MODEL.format(size=size, archive=os.path.abspath(args.archive), fast=", fast=true" if fast else ""))
    words = [args.xrun, "bench", "data", path, "--threads", str(args.threads), "--rounds", "1", "--samples", str(args.samples),
             "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\n{done.stderr}")
    return json.loads(done.stdout)["loader"]["samples_per_s"]


def run_torchvision(pool, files, count, size):
    def decode(i):
        picture = decode_jpeg(files[i % len(files)], mode=ImageReadMode.RGB)
        return functional.resize(picture, [size, size], antialias=True).float()

    begin = time.perf_counter()
    for _ in pool.map(decode, range(count)):
        pass
    return count / (time.perf_counter() - begin)


def spread(values, form):
    """Formats the median, with the smallest and the largest value in brackets."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("archive")
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 112, 224])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    torch.set_num_threads(1)
    with zipfile.ZipFile(args.archive) as archive:
        files = [torch.frombuffer(bytearray(archive.read(name)), dtype=torch.uint8)
                 for name in archive.namelist() if name.endswith(".jpg")]
    print(f"{len(files)} files, {args.threads} threads, {args.rounds} rounds, torch {torch.__version__}, torchvision "
          f"{torchvision.__version__}\n\n| size | xrun, samples/s | fast, samples/s | torchvision, samples/s | xrun over "
          f"torchvision | fast over torchvision |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.threads) as pool:
        for size in args.sizes:
            run_torchvision(pool, files, 100, size)
            ours, fast, theirs = [], [], []
            for _ in range(args.rounds):
                ours.append(run_xrun(args, folder, size, False))
                theirs.append(run_torchvision(pool, files, args.samples, size))
                fast.append(run_xrun(args, folder, size, True))
            print(f"| {size} | {spread(ours, ',.0f')} | {spread(fast, ',.0f')} | {spread(theirs, ',.0f')} | "
                  f"{spread([a / b for a, b in zip(ours, theirs)], '.2f')} | "
                  f"{spread([a / b for a, b in zip(fast, theirs)], '.2f')} |", flush=True)


if __name__ == "__main__":
    main()
