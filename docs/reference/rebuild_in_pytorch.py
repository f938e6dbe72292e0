#!/usr/bin/env python3
"""Rebuilds three models of xrun in PyTorch from their checkpoints, and compares what both give.

    python3 docs/reference/rebuild_in_pytorch.py build/release/xrun

Needs PyTorch alone. The exported weights (weights_in_pytorch.py) are compared with those of the checkpoints. Each model is trained for some steps in a temporary directory: a table with batch norm, a residual
network of pictures with a head of cosines, a vision transformer. docs/reference/formats.md, "Rebuilding logits elsewhere", says
in words what the functions below do.
"""

import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import zlib

import torch
import torch.nn.functional as F

import weights_in_pytorch

TABLE = """xgraph 1

model table {
  input x: f32[N, 12]

  logits = x -> linear(16) -> bn -> relu -> linear(3)
  output logits
}

data rows {
  source train = csv("rows.csv")
  x     = columns(0..12) -> scale(1 / 4)
  label = column(12) -> as_index(3)
}

train run {
  batch     = 16
  norm_rows = 8
  steps     = 30
  loss      = softmax_ce(logits, label)
  optimizer = sgd(momentum=0.9)
  lr        = 0.05
}
"""

PICTURES = """
data pictures {
  source train = folder("pictures")
  image = file -> decode(16) -> random_flip -> normalize(mean=[120, 110, 100], std=[60, 50, 40])
}
"""

RESNET = """xgraph 1

from "std/vision" use basic

model faces {
  input image: f32[N, 3, 16, 16]

  feature = image
    -> conv(8, 3, stride=2) as stem -> bn -> relu -> max_pool(3, stride=2)
    -> basic(8) as one -> basic(12, stride=2) as two
    -> global_avg_pool
  output feature

  head id = cosine_classifier(feature, 4)
}
""" + PICTURES + """
train run {
  batch     = 16
  norm_rows = 8
  steps     = 30
  loss      = arcface(id, label, margin=0.1, scale=8)
  optimizer = adamw
  lr        = 0.003
}
"""

VIT = """xgraph 1

from "std/nets" use vit

model patches {
  input image: f32[N, 3, 16, 16]

  logits = image -> vit(32, 2, 4, 4) -> linear(4) as classifier
  output logits
}
""" + PICTURES + """
train run {
  batch     = 16
  norm_rows = 8
  steps     = 30
  loss      = softmax_ce(logits, label)
  optimizer = adamw
  lr        = 0.003
}
"""


def load_file(path):
    """A safetensors file: u64 n, n bytes of JSON, data. Gives tensors by name, and the metadata."""
    data = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        numbers = torch.frombuffer(bytearray(data[8 + n + begin : 8 + n + end]), dtype=torch.float32)
        tensors[name] = numbers.reshape(entry["shape"])
    return tensors, metadata


def load_checkpoint(directory):
    """All weights and running statistics of the newest step, by name. Rows of a head come from several files."""
    directory = pathlib.Path(directory)
    step = directory / (directory / "latest").read_text().strip()
    weights, _ = load_file(step / "trunk.safetensors")
    parts = {}
    for path in step.glob("head.*.safetensors"):
        tensors, metadata = load_file(path)
        for name, rows in tensors.items():
            parts.setdefault(name, []).append((int(metadata["row_begin"]), rows))
    for name, rows in parts.items():
        weights[name] = torch.cat([one for _, one in sorted(rows, key=lambda part: part[0])])
    return weights


class Rebuilt:
    """The layers of xrun over the tensors of a checkpoint, by the path of the layer."""

    def __init__(self, weights):
        self.weights = weights

    def get(self, path, name):
        return self.weights.get(f"{path}.{name}")

    def linear(self, x, path):
        return F.linear(x, self.get(path, "weight"), self.get(path, "bias"))

    def conv(self, x, path, stride=1, pad=None):
        weight = self.get(path, "weight")
        pad = weight.shape[-1] // 2 if pad is None else pad
        return F.conv2d(x, weight, self.get(path, "bias"), stride=stride, padding=pad)

    def bn(self, x, path):
        return F.batch_norm(x, self.get(path, "running_mean"), self.get(path, "running_var"),
                            self.get(path, "weight"), self.get(path, "bias"), eps=1e-5)

    def layer_norm(self, x, path):
        return F.layer_norm(x, x.shape[-1:], self.get(path, "weight"), self.get(path, "bias"), eps=1e-6)

    def attention(self, x, path, heads):
        n, t, d = x.shape
        q, k, v = self.linear(x, path + ".qkv").split(d, dim=-1)  # queries, keys, values, one after the other
        q, k, v = (y.reshape(n, t, heads, d // heads).transpose(1, 2) for y in (q, k, v))
        scores = q @ k.transpose(-1, -2) / (d // heads) ** 0.5
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, d)
        return self.linear(y, path + ".proj")

    def class_token(self, x, path):
        token = self.get(path, "token").expand(x.shape[0], 1, -1)
        return torch.cat([token, x], dim=1)

    def cosine_classifier(self, x, path):
        return F.normalize(x, eps=1e-12) @ F.normalize(self.get(path, "weight"), eps=1e-12).T


def table(net, x):
    x = F.relu(net.bn(net.linear(x, "linear"), "bn"))
    return net.linear(x, "linear_2")


def basic(net, x, path, stride=1, projects=False):
    y = F.relu(net.bn(net.conv(x, path + ".conv", stride), path + ".bn"))
    y = net.bn(net.conv(y, path + ".conv_2"), path + ".bn_2")
    if projects:
        x = net.bn(net.conv(x, path + ".conv_3", stride), path + ".bn_3")
    return F.relu(y + x)


def resnet(net, x):
    x = F.relu(net.bn(net.conv(x, "stem", stride=2), "bn"))
    x = F.max_pool2d(x, 3, stride=2, padding=1)
    x = basic(net, x, "one")
    x = basic(net, x, "two", stride=2, projects=True)
    return x.mean((2, 3))


def vit(net, x):
    x = net.conv(x, "vit.patch", stride=4, pad=0).flatten(2).transpose(1, 2)
    x = net.class_token(x, "vit.class_token")
    x = x + net.get("vit.position_embedding", "embedding")
    for i in range(2):
        block = f"vit.blocks.{i}.encoder"
        x = x + net.attention(net.layer_norm(x, block + ".layer_norm"), block + ".attention", heads=4)
        y = net.linear(net.layer_norm(x, block + ".layer_norm_2"), block + ".mlp.linear")
        x = x + net.linear(F.gelu(y), block + ".mlp.linear_2")
    return net.linear(net.layer_norm(x, "vit.layer_norm")[:, 0], "classifier")


def prepared(pixels):
    """decode(16) -> normalize(...): pixels [3, H, W] of 0 to 255; random stages are for training alone."""
    x = F.interpolate(pixels[None], size=(16, 16), mode="bilinear", antialias=True, align_corners=False)
    mean = torch.tensor([120.0, 110.0, 100.0]).reshape(1, 3, 1, 1)
    std = torch.tensor([60.0, 50.0, 40.0]).reshape(1, 3, 1, 1)
    return (x - mean) / std


def png(width, height, rows):
    """A picture of 8-bit RGB; `rows` has bytes row by row."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = b"".join(b"\0" + rows[y * width * 3 : (y + 1) * width * 3] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


class Workshop:
    """A directory in which xrun trains and predicts."""

    def __init__(self, xrun, directory):
        self.xrun = pathlib.Path(xrun).resolve()
        self.directory = pathlib.Path(directory)
        self.worst = 0.0

    def run(self, *words):
        done = subprocess.run([self.xrun, *words], cwd=self.directory, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"xrun {' '.join(words)}\n{done.stderr}")
        return done.stdout

    def train(self, name, text):
        """Gives the checkpoint's directory and the layers over its tensors."""
        (self.directory / f"{name}.xgraph").write_text(text)
        self.run("train", f"{name}.xgraph", "-C", name, "--progress", "none")
        weights = load_checkpoint(self.directory / name / "ckpt" / "run")
        self.check_export(f"{name}/ckpt/run", weights, ["--with-head", "id"] if "head id" in text else [])
        return f"{name}/ckpt/run", Rebuilt(weights)

    def check_export(self, checkpoint, weights, flags):
        """The exported file has the tensors of the checkpoint, and modules of the same names take them."""
        self.run("export", checkpoint, "-o", f"{checkpoint}.safetensors", *flags)
        exported = weights_in_pytorch.load(self.directory / f"{checkpoint}.safetensors").state_dict()
        missing = [name for name in weights.keys() - exported.keys() if not name.startswith("id.weight.")]  # optimizer states
        if missing or any(not torch.equal(values, weights[name]) for name, values in exported.items()):
            sys.exit(f"{checkpoint}.safetensors has other tensors than the checkpoint")

    def embeddings(self, *words):
        """[samples, numbers]: the model's first output."""
        lines = self.run("predict", *words, "--embedding", "--format", "json").splitlines()
        return torch.tensor([json.loads(line)["embedding"] for line in lines])

    def compare(self, what, rebuilt, given):
        difference = (rebuilt - given).abs().max().item()
        scale = max(1.0, given.abs().max().item())
        print(f"{what:<28} {list(given.shape)}   largest difference {difference:.1e}")
        self.worst = max(self.worst, difference / scale)


def main(xrun):
    random.seed(1)
    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory() as directory:
        shop = Workshop(xrun, directory)

        rows = [[random.randrange(-8, 9) for _ in range(12)] for _ in range(96)]
        lines = [",".join(map(str, row + [abs(sum(row)) % 3])) for row in rows]
        (shop.directory / "rows.csv").write_text("\n".join(lines) + "\n")
        checkpoint, net = shop.train("table", TABLE)
        given = shop.embeddings(checkpoint, "--source", "train", "--rows", "0..96")
        shop.compare("table: logits", table(net, torch.tensor(rows, dtype=torch.float32) / 4), given)

        images, paths = [], []
        for label in range(4):
            (shop.directory / "pictures" / f"class{label}").mkdir(parents=True)
            for i in range(16):
                width, height = random.randrange(12, 40), random.randrange(12, 40)
                data = bytes((random.randrange(256) + 40 * label) % 256 for _ in range(width * height * 3))
                path = shop.directory / "pictures" / f"class{label}" / f"{i:02}.png"
                path.write_bytes(png(width, height, data))
                pixels = torch.frombuffer(bytearray(data), dtype=torch.uint8).reshape(height, width, 3)
                images.append(prepared(pixels.permute(2, 0, 1).float()))
                paths.append(str(path))
        x = torch.cat(images)

        checkpoint, net = shop.train("resnet", RESNET)
        feature = resnet(net, x)
        shop.compare("resnet: embedding", feature, shop.embeddings(checkpoint, *paths))
        found = [json.loads(line)["classes"] for line in
                 shop.run("predict", checkpoint, *paths, "--topk", "1", "--scores", "logits", "--format",
                          "json").splitlines()]
        best = net.cosine_classifier(feature, "id").max(dim=1)
        shop.compare("resnet: best cosine", best.values, torch.tensor([one[0]["score"] for one in found]))
        if [one[0]["class"] for one in found] != best.indices.tolist():
            sys.exit("resnet: other classes are best")

        checkpoint, net = shop.train("vit", VIT)
        shop.compare("vit: logits", vit(net, x), shop.embeddings(checkpoint, *paths))

        if shop.worst > 1e-5:
            sys.exit(f"the largest relative difference is {shop.worst:.1e}, above 1e-5")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
