"""Writes published.json: the results of the published verification code for made features.

    python published.py LFW_UTILS > published.json

LFW_UTILS is plsc/metric/lfw_utils.py of the package plsc 2.4.0, the evaluation code of FaceNet that ArcFace also uses.
It interpolates over a staircase with SciPy, which refuses that from 1.8 on. `staircase` gives it the spline of degree 1
that SciPy 1.7.3 made.
"""
import importlib.util
import json
import sys

import numpy as np
import scipy
import sklearn
from scipy.interpolate import BSpline
from sklearn.preprocessing import normalize

MASK = (1 << 64) - 1


def splitmix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def uniform(seed, i):
    """A multiple of 2^-24 in [-0.5, 0.5), the same in tests/runtime/train/evaluation/verification_test.cpp."""
    return (splitmix((seed << 32) + i) >> 40) / 2**24 - 0.5


def features(case):
    """Two features of each sample, [2 * pairs, dim], of the picture and of its mirror image; and `same` by pair."""
    seed, dim, near = case["seed"], case["dim"], case["near"]
    at = 0
    plain, mirrored, same = [], [], []
    for pair in range(case["pairs"]):
        same.append(uniform(seed, 1_000_000_000 + pair) < case["share"] - 0.5)
        centre = [uniform(seed, at + d) for d in range(dim)]
        at += dim
        for sample in range(2):
            if sample == 1 and not same[-1]:
                centre = [uniform(seed, at + d) for d in range(dim)]
                at += dim
            for to in (plain, mirrored):
                row = [centre[d] + near * uniform(seed, at + d) for d in range(dim)]
                if case["levels"] > 0:
                    row = [np.floor(x * case["levels"] + 0.5) for x in row]
                to.append(row)
                at += dim
    return np.array(plain, np.float32), np.array(mirrored, np.float32), np.array(same)


def staircase(x, y, kind):
    assert kind == "slinear"
    return BSpline.construct_fast(np.r_[x[0], x, x[-1]], y, 1)


def main():
    spec = importlib.util.spec_from_file_location("lfw_utils", sys.argv[1])
    lfw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lfw)
    lfw.interpolate.interp1d = staircase
    cases = []
    for case in [
            {"seed": 1, "pairs": 600, "dim": 16, "near": 1.0, "share": 0.5, "levels": 0, "folds": 10},
            {"seed": 2, "pairs": 600, "dim": 16, "near": 2.2, "share": 0.5, "levels": 0, "folds": 10},
            {"seed": 3, "pairs": 1203, "dim": 8, "near": 1.5, "share": 0.3, "levels": 0, "folds": 7},
            {"seed": 4, "pairs": 400, "dim": 4, "near": 0.9, "share": 0.5, "levels": 3, "folds": 10},
            {"seed": 5, "pairs": 997, "dim": 3, "near": 1.1, "share": 0.6, "levels": 2, "folds": 4},
            {"seed": 6, "pairs": 2400, "dim": 32, "near": 30.0, "share": 0.5, "levels": 0, "folds": 10},
            {"seed": 7, "pairs": 40, "dim": 6, "near": 0.1, "share": 0.5, "levels": 0, "folds": 2}]:
        plain, mirrored, same = features(case)
        embeddings = normalize(plain.astype(np.float64) + mirrored.astype(np.float64))
        one, two = embeddings[0::2], embeddings[1::2]
        tpr, fpr, accuracy = lfw.calculate_roc(np.arange(0, 4, 0.01), one, two, same, case["folds"])
        fine = np.arange(0, 4, 0.001)
        fars = [10.0**-k for k in range(1, 9) if 10**k <= np.sum(~same)] + [0.0]
        tars = []
        for far in fars:
            tar, deviation, measured = lfw.calculate_val(fine, one, two, same, far, case["folds"])
            tars.append([far, tar, deviation, measured])
        cases.append({**case, "different": int(np.sum(~same)), "accuracy": np.mean(accuracy),
                      "deviation": np.std(accuracy), "tar_at_far": tars,
                      "tpr": [round(x, 9) for x in tpr[::10]], "fpr": [round(x, 9) for x in fpr[::10]]})
    made_by = f"plsc 2.4.0, numpy {np.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    lines = ",\n".join(json.dumps(case) for case in cases)
    print(f'{{"made_by": "{made_by}", "cases": [\n{lines}\n]}}')


main()
