#!/usr/bin/env python3
"""Exports networks as ONNX and compares them with `xrun predict` on a test set (not run by `make test`).

    pip install onnx==1.23.2 onnxruntime==1.32.0 numpy pillow
    python3 tests/runtime/interchange/onnx_round_trips.py build/release/xrun GROCERY_ZIP [NETWORK...]

GROCERY_ZIP has pictures as train/.../CLASS/NAME.jpg and test/.../CLASS/NAME.jpg. Each network is trained for a few
steps, so that weights and running statistics of norms are not those of the start, and exported with its head: once with
preprocessing inside, and once without it. onnxruntime computes SAMPLES pictures of the test set, each of its own size;
the second file gets pixels that NumPy has resized in f64. `glyphs` is models/glyphs.xgraph, with pictures of a font that
it has not seen. The table has, for each file, the largest difference of the feature over its largest number, and the
share of samples with the same first class. The exit code is 1 if a difference is above 1e-5 or a class differs.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw, ImageFont

MOST = 1e-5
STEPS = 8
BATCH = 16
SAMPLES = int(os.environ.get("SAMPLES", "200"))
LARGEST_SIDE = 200
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
FONT = "/usr/share/fonts/opentype/unifont/unifont.otf"

# The size of the pictures of each network, and its text from `image` to the feature.
NETWORKS = {
    "ResNet-50": (224, "resnet([3, 4, 6, 3])"),
    "IResNet-50": (112, "iresnet([3, 4, 14, 3])"),
    "MobileFaceNet": (112, "mobilefacenet(512, scale=2)"),
    "mbf_large": (112, "mbf_large"),
    "ViT-S": (224, "vit(384, 12, 6, 16)"),
    "EfficientNet-B0": (224, "efficientnet_b0"),
}


def text_of(size, network):
    return f"""xgraph 1

from "std/nets" use {network.partition("(")[0]}

model net {{
  input image: f32[N, 3, {size}, {size}]

  feature = image -> {network} as backbone
  output feature

  head id = classifier(feature, 81)
}}

data grocery {{
  source train = folder("train")

  image = file -> decode({size}) -> random_flip -> normalize(mean=127.5, std=127.5)
  label = label -> as_index(81)
}}

train few {{
  batch     = {BATCH}
  norm_rows = {BATCH}
  steps     = {STEPS}
  loss      = softmax_ce(id, label)
  optimizer = sgd(momentum=0.9)
  lr        = 0.01
}}
"""


def run(xrun, words, directory):
    done = subprocess.run([xrun, *words], cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"xrun {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def weights(size, wanted):
    """The weights of a bilinear filter that is widened if the side shrinks, as in Pillow."""
    ratio = size / wanted
    scale = max(1.0, ratio)
    places = (np.arange(wanted) + 0.5) * ratio
    distances = np.abs(np.arange(size) + 0.5 - places[:, None]) / scale
    found = np.maximum(0.0, 1 - distances)
    return found / found.sum(1, keepdims=True)


def pixels(picture, size):
    """Returns the result of the data block for a picture [H, W, C]."""
    wide = np.einsum("xw,hwc->hxc", weights(picture.shape[1], size), picture.astype(np.float64))
    resized = np.einsum("yh,hxc->cyx", weights(picture.shape[0], size), wide)
    return (resized / 127.5 - 1).astype(np.float32)


def unpack(archive, directory):
    """All training pictures as they are, and SAMPLES pictures of the test set, smaller and without loss."""
    files = []
    with zipfile.ZipFile(archive) as packed:
        names = sorted(name for name in packed.namelist() if name.endswith(".jpg"))
        tests = [name for name in names if name.startswith("test/")]
        for name in names:
            if name.startswith("train/"):
                place = os.path.join(directory, "train", *name.split("/")[-2:])
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with open(place, "wb") as file:
                    file.write(packed.read(name))
        for i in np.linspace(0, len(tests) - 1, SAMPLES).astype(int):
            with packed.open(tests[i]) as file:
                picture = Image.open(file).convert("RGB")
            picture.thumbnail((LARGEST_SIDE - i % 7, LARGEST_SIDE - i % 5))
            files.append(os.path.join(directory, "test", f"{len(files):04}.png"))
            os.makedirs(os.path.dirname(files[-1]), exist_ok=True)
            picture.save(files[-1])
    return files


def draw_glyphs(directory):
    font = ImageFont.truetype(FONT, 26)
    files = []
    os.makedirs(os.path.join(directory, "glyphs"), exist_ok=True)
    for i in range(SAMPLES):
        picture = Image.new("L", (32, 32))
        ImageDraw.Draw(picture).text((3, 1), chr(0x4E00 + 97 * i), font=font, fill=255)
        files.append(os.path.join(directory, "glyphs", f"{i:04}.png"))
        picture.save(files[-1])
    return files


def ours(xrun, checkpoint, files, directory):
    """The features and the numbers of the first classes of `xrun predict`."""
    run(xrun, ["predict", checkpoint, *files, "--embedding", "-o", "ours.npy"], directory)
    lines = run(xrun, ["predict", checkpoint, *files, "--topk", "1", "--scores", "logits", "--format", "json"], directory)
    found = [json.loads(line) for line in lines.splitlines() if '"classes"' in line]
    return np.load(os.path.join(directory, "ours.npy")), np.array([line["classes"][0]["class"] for line in found])


def theirs(file, pictures):
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    results = [session.run(None, {name: picture[None]}) for picture in pictures]
    features, logits = (np.concatenate(part) for part in zip(*results))
    return features, logits.argmax(1)


def row(name, what, features, classes, found, seconds):
    difference = np.abs(features - found[0]).max() / np.abs(features).max()
    equal = (classes == found[1]).mean()
    good = difference <= MOST and equal == 1
    print(f"| {name} | {what} | {len(features)} | {difference:.1e} | {100 * equal:g} % | {seconds:.0f} s |"
          f"{'' if good else ' WRONG'}", flush=True)
    return good


def compare(xrun, name, head, checkpoint, files, with_stages, without, directory):
    start = time.time()
    features, classes = ours(xrun, checkpoint, files, directory)
    good = True
    for what, pictures in (("pictures of bytes", with_stages), ("pixels", without)):
        words = ["export", checkpoint, "-o", "net.onnx", "--with-head", head, "--python", sys.executable]
        run(xrun, words + (["--preprocess"] if what != "pixels" else []), directory)
        found = theirs(os.path.join(directory, "net.onnx"), pictures)
        good &= row(name, what, features, classes, found, time.time() - start)
    return good


def compare_network(xrun, name, files, directory):
    size, network = NETWORKS[name]
    model = f"{network.partition('(')[0]}.xgraph"
    with open(os.path.join(directory, model), "w") as file:
        file.write(text_of(size, network))
    run(xrun, ["train", model, "-C", name, "--progress", "none"], directory)
    pictures = [np.asarray(Image.open(file)) for file in files]
    checkpoint = find_checkpoint(directory, name)
    return compare(xrun, name, "id", checkpoint, files, pictures, [pixels(one, size) for one in pictures], directory)


def find_checkpoint(directory, name):
    for folder, _, files in os.walk(os.path.join(directory, name)):
        if "manifest.json" in files:
            return os.path.dirname(folder)
    sys.exit(f"{name} has no checkpoint")


def compare_glyphs(xrun, directory):
    with open(os.path.join(ROOT, "models/glyphs.xgraph")) as file:
        text = re.sub(r"\n  eval \{.*?\n  \}\n", "\n", file.read(), flags=re.DOTALL)
    text = re.sub(r"epochs    = 8", f"steps     = {4 * STEPS}", text)
    text = re.sub(r"lr        = .*", "lr        = 3e-3", text)
    text = re.sub(r"precision = .*\n", "", text)
    with open(os.path.join(directory, "glyphs.xgraph"), "w") as file:
        file.write(text)
    run(xrun, ["train", "glyphs.xgraph", "-C", "glyphs_run", "--progress", "none"], directory)
    files = draw_glyphs(directory)
    pictures = [np.asarray(Image.open(file))[..., None] for file in files]
    ready = [(one.transpose(2, 0, 1).astype(np.float32) * np.float32(1 / 255)) for one in pictures]
    return compare(xrun, "glyphs", "character", find_checkpoint(directory, "glyphs_run"), files, pictures, ready,
                   directory)


def main():
    xrun, archive = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    wanted = sys.argv[3:] or [*NETWORKS, "glyphs"]
    if unknown := [name for name in wanted if name not in [*NETWORKS, "glyphs"]]:
        sys.exit(f"unknown network: {', '.join(unknown)}; there are {', '.join(NETWORKS)} and glyphs")
    print("| network | input | samples | largest difference | same first class | time |\n|---|---|---|---|---|---|")
    good = True
    with tempfile.TemporaryDirectory() as directory:
        files = unpack(archive, directory) if set(wanted) - {"glyphs"} else []
        for name in wanted:
            good &= compare_glyphs(xrun, directory) if name == "glyphs" else compare_network(xrun, name, files, directory)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
