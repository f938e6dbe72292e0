"""Trains the model of models/glyphs.xgraph in PyTorch on the CPU, for the comparison with xrun in `make bench`.

The layers, batch, loss, optimizer (fused) and augmentation (on the training threads) are equal to those of xrun; tensors are
channels-last, and the head is a full softmax. Prints one JSON object: images per second over the timed steps, after warm-up.
"""

import argparse
import json
import math
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CLASSES = 20902


class Basic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.an = nn.BatchNorm2d(width)
        self.b = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.bn(self.b(F.relu(self.an(self.a(x))))))


class Glyphs(nn.Module):
    def __init__(self):
        super().__init__()

        def conv(i, o, stride=1):
            return [nn.Conv2d(i, o, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]

        self.trunk = nn.Sequential(
            *conv(1, 32, 2), *conv(32, 64), *conv(64, 64, 2), Basic(64), *conv(64, 128, 2), Basic(128),
            nn.Flatten(), nn.Dropout(0.1), nn.Linear(128 * 16, 256, bias=False), nn.BatchNorm1d(256))
        self.head = nn.Parameter(torch.randn(CLASSES, 256) * 0.05)

    def forward(self, x, y, margin=0.15, scale=24.0):
        # Scale the features, and apply the margin to one logit of each row, so that no further tensor has the size of
        # the logits.
        feature = F.normalize(self.trunk(x)) * scale
        logits = (feature @ F.normalize(self.head).t()).float()
        logits.scatter_add_(1, y[:, None], logits.new_full((len(y), 1), -margin * scale))
        return F.cross_entropy(logits, y)


def draw_glyphs(count):
    """Draws real glyphs if the font is installed; otherwise makes noise: speed does not depend on pixels."""
    try:
        from PIL import Image, ImageDraw, ImageFont

        font = ImageFont.truetype("/usr/share/fonts/truetype/wqy/wqy-zenhei.ttc", 26)
        out = np.zeros((count, 1, 32, 32), np.uint8)
        for i in range(count):
            image = Image.new("L", (32, 32))
            ImageDraw.Draw(image).text((3, 3), chr(0x4E00 + i % CLASSES), font=font, fill=255)
            out[i, 0] = np.asarray(image)
        return torch.from_numpy(out)
    except (ImportError, OSError):
        return torch.randint(0, 256, (count, 1, 32, 32), dtype=torch.uint8)


def augment(pixels):
    """Applies the augmentation of models/glyphs.xgraph: scale, affine, stroke weight, blur, noise."""
    x = pixels.float() / 255
    n = x.shape[0]
    u = lambda r: (torch.rand(n) * 2 - 1) * r
    angle, sx, sy, shear = u(0.1), 1 + u(0.15), 1 + u(0.15), u(0.1)
    cos, sin = torch.cos(angle), torch.sin(angle)
    theta = torch.stack([torch.stack([cos * sx, -sin * sy + shear, u(0.12)], 1),
                         torch.stack([sin * sx, cos * sy, u(0.12)], 1)], 1)
    x = F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False)
    w = u(0.5).view(n, 1, 1, 1)
    x = torch.where(w > 0, x + w * (F.max_pool2d(x, 3, 1, 1) - x), x - w * (-F.max_pool2d(-x, 3, 1, 1) - x))
    mix = ((torch.rand(n) < 0.3).float() * torch.rand(n)).view(n, 1, 1, 1)
    x = x + mix * (F.avg_pool2d(x, 3, 1, 1) - x)
    return (x + 0.05 * torch.randn_like(x)).clamp(0, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="bf16")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--warmup", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)

    pool = draw_glyphs(8 * args.batch)
    model = Glyphs().to(memory_format=torch.channels_last)
    decay = [p for p in model.trunk.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() == 1] + [model.head]
    # The fused optimizer makes one pass over weights and state. On the CPU it is several times as fast as the default.
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.02}, {"params": plain, "weight_decay": 0.0}], lr=3e-3, fused=True)

    began = 0.0
    for step in range(args.warmup + args.steps):
        if step == args.warmup:
            began = time.perf_counter()
        pick = torch.randint(0, pool.shape[0], (args.batch,))
        x = augment(pool[pick]).contiguous(memory_format=torch.channels_last)
        y = torch.randint(0, CLASSES, (args.batch,))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if not math.isfinite(loss.item()):
            raise SystemExit("the loss is not finite")
    seconds = time.perf_counter() - began
    print(json.dumps({"torch": torch.__version__, "dtype": args.dtype, "batch": args.batch, "threads": args.threads,
                      "images_per_s": args.steps * args.batch / seconds}))


if __name__ == "__main__":
    main()
