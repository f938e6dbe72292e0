#!/usr/bin/env python3
"""Compares xrun with PyTorch on networks of their published sizes with random weights (not run by `make test`).

    python3 tests/runtime/interchange/nets/compare.py build/release/xrun [NETWORK...]

For each network, PyTorch computes the numbers of a few random pictures, its state_dict is saved as weights.pth, `xrun
import` makes a checkpoint of it, and `xrun predict --embedding` computes the same pictures. The checkpoint is exported
as safetensors and imported again, which must give the same bits. Networks of torchvision and timm are taken from these
packages where they are installed. The exit code is 1 if numbers differ by more than 1e-5 of the largest one.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch

from cases import FULL, packages, text_of
from values import fill, values

MOST = 1e-5
SAMPLES = 4


def run(xrun, words, directory):
    done = subprocess.run([xrun, *words], cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"xrun {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def predict(xrun, checkpoint, directory):
    run(xrun, ["predict", checkpoint, "--source", "test", "--embedding", "-o", "e.npy"], directory)
    return np.load(os.path.join(directory, "e.npy"))


def compare(xrun, name, case, make):
    model = make().eval()
    fill(model, case.last_norms)
    x = values("x", (SAMPLES, 3, case.size, case.size), -1.0, 1.0)
    with torch.no_grad():
        wanted = model(torch.from_numpy(x)).numpy()
    with tempfile.TemporaryDirectory() as directory:
        torch.save(model.state_dict(), os.path.join(directory, "weights.pth"))
        np.save(os.path.join(directory, "x.npy"), x)
        np.save(os.path.join(directory, "labels.npy"), np.arange(SAMPLES) % 2)
        with open(os.path.join(directory, "m.xgraph"), "w") as file:
            file.write(text_of(case, SAMPLES))
        words = ["import", "weights.pth", "--into", "m.xgraph", "-o", "ckpt/start", "--format", "json"]
        imported = json.loads(run(xrun, words, directory))
        got = predict(xrun, "ckpt/start", directory)
        run(xrun, ["export", "ckpt/start", "-o", "back.safetensors"], directory)
        run(xrun, ["import", "back.safetensors", "--into", "m.xgraph", "-o", "ckpt/back"], directory)
        same = np.array_equal(got, predict(xrun, "ckpt/back", directory))
    difference, scale = np.abs(got - wanted).max(), np.abs(wanted).max()
    good = difference <= MOST * scale and same
    print(f"{name:28} {type(model).__module__.split('.')[0]:14} names of {imported['names']:26} "
          f"{len(imported['fits']):4} fit, {len(imported['left_over'])} left over, {len(imported['missing'])} missing   "
          f"largest number {scale:8.3f}, largest difference {difference:.1e}, exported and imported again "
          f"{'the same bits' if same else 'OTHER BITS'}{'' if good else '   WRONG'}", flush=True)
    return good


def main():
    xrun, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(FULL)
    torch.manual_seed(1)
    good = True
    made = packages()
    for name in wanted:
        make = made.get(name, FULL[name].make)
        if make is None:
            print(f"{name:28} is skipped: no package here has it")
            continue
        good &= compare(xrun, name, FULL[name], make)
        if name in made and FULL[name].make:
            ours, theirs = FULL[name].make().state_dict(), made[name]().state_dict()
            same = {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}
            print(f"{'':28} our text of it has {'the same' if same else 'OTHER'} tensors as the package")
            good &= same
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
