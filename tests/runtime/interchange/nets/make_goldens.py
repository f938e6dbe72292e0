#!/usr/bin/env python3
"""Writes tests/golden/import/NETWORK.json: PyTorch's results for small networks, which published_nets_test.cpp compares.

    python3 tests/runtime/interchange/nets/make_goldens.py
"""
import json
import os

import torch

from cases import SMALL, text_of
from values import fill, values

SAMPLES = 2
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../golden/import")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name, case in SMALL.items():
        model = case.make().eval()
        ranges = fill(model, case.last_norms)
        x = values("x", (SAMPLES, 3, case.size, case.size), -1.0, 1.0)
        with torch.no_grad():
            y = model(torch.from_numpy(x)).double().tolist()
        with open(os.path.join(FOLDER, name + ".json"), "w") as file:
            file.write("{\n")
            file.write(f'"pytorch": {json.dumps(torch.__version__)},\n"model": {json.dumps(text_of(case, SAMPLES))},\n')
            file.write(f'"pictures": {json.dumps([SAMPLES, 3, case.size, case.size])},\n"tensors": {{\n')
            file.write(",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in ranges.items()))
            file.write('\n},\n"y": [\n')
            file.write(",\n".join(json.dumps([float(f"{v:.9g}") for v in row]) for row in y))
            file.write("\n]\n}\n")
        print(name, max(abs(v) for row in y for v in row))


if __name__ == "__main__":
    main()
