#!/usr/bin/env python3
"""Loads an exported face model with InsightFace's own program and compares embeddings (not run by `make test`).

    pip install onnx==1.23.2 onnxruntime==1.32.0 opencv-python-headless tqdm requests scipy scikit-image
    pip install --no-deps insightface==2.1
    python3 tests/runtime/interchange/insightface_loader.py build/release/xrun [NETWORK [STEPS]]

A network of std/nets, `iresnet([3, 4, 14, 3])` unless one is given, is trained for a few steps on random pictures of
two classes, and exported. insightface.model_zoo.get_model has to choose its class for recognition, which reads mean and
deviation from the names of the first nodes and gets pictures in the order BGR. Its embeddings are compared with those of
`xrun predict` for the same files. The exit code is 1 if numbers differ by more than 1e-5 of the largest one, and 77 if
the package is missing.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

try:
    import cv2
    import insightface
    from insightface import model_zoo
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

MOST = 1e-5
PICTURES = 8
SIZE = 112


def text_of(network, steps):
    return f"""xgraph 1

from "std/nets" use {network.partition("(")[0]}

model face {{
  input image: f32[N, 3, {SIZE}, {SIZE}]

  feature = image -> {network} as backbone
  output feature

  head id = cosine_classifier(feature, 2)
}}

data pictures {{
  source train = folder("pictures")

  image = file -> decode({SIZE}) -> random_flip -> normalize(mean=127.5, std=127.5)
  label = label -> as_index(2)
}}

train arcface {{
  batch     = {PICTURES}
  norm_rows = {PICTURES}
  steps     = {steps}
  loss      = arcface(id, label, margin=0.5, scale=16)
  optimizer = sgd(momentum=0.9)
  lr        = 0.01
}}
"""


def run(xrun, words, directory):
    done = subprocess.run([xrun, *words], cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"xrun {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def smooth_picture(random):
    coarse = random.integers(0, 256, (9, 9, 3), dtype=np.uint8)
    return cv2.resize(coarse, (SIZE, SIZE), interpolation=cv2.INTER_CUBIC)


def main():
    xrun = os.path.abspath(sys.argv[1])
    network = sys.argv[2] if len(sys.argv) > 2 else "iresnet([3, 4, 14, 3])"
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as directory:
        files = []
        for i in range(PICTURES):
            folder = os.path.join(directory, "pictures", str(i % 2))
            os.makedirs(folder, exist_ok=True)
            files.append(os.path.join(folder, f"{i}.png"))
            cv2.imwrite(files[-1], smooth_picture(random))
        with open(os.path.join(directory, "face.xgraph"), "w") as file:
            file.write(text_of(network, steps))
        run(xrun, ["train", "face.xgraph", "--progress", "none"], directory)
        print(run(xrun, ["export", "ckpt/arcface", "-o", "face.onnx", "--python", sys.executable], directory), end="")
        run(xrun, ["predict", "ckpt/arcface", *files, "--embedding", "-o", "ours.npy"], directory)
        ours = np.load(os.path.join(directory, "ours.npy"))
        model = model_zoo.get_model(os.path.join(directory, "face.onnx"), providers=["CPUExecutionProvider"])
        theirs = model.get_feat([cv2.imread(file) for file in files])
    difference, scale = np.abs(ours - theirs).max(), np.abs(ours).max()
    good = (type(model).__name__ == "ArcFaceONNX" and (model.input_mean, model.input_std) == (127.5, 127.5)
            and difference <= MOST * scale)
    print(f"insightface {insightface.__version__} loads {network} as {type(model).__name__} with mean {model.input_mean} "
          f"and deviation {model.input_std}: {len(theirs)} embeddings of {theirs.shape[1]} numbers, largest number "
          f"{scale:.3f}, largest difference {difference:.1e}{'' if good else '   WRONG'}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
