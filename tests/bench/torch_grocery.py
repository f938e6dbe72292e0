"""Trains the network of compare_grocery.py in PyTorch on the CPU, with the augmentation of torchvision.

  torch_grocery.py DIR --seed S [--epochs E] [--batch B] [--rate R] [--threads T]

DIR has the folders `train` and `test`, with a folder of pictures for each class. All pictures are decoded once. Initial
weights have the distributions of xrun: He's normal values, and biases of 0. Prints one JSON object with the accuracy on
`test` after the last epoch.
"""

import argparse
import json
import math
import os

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torchvision.transforms import v2


class Basic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.an = nn.BatchNorm2d(width)
        self.b = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.bn(self.b(F.relu(self.an(self.a(x))))))


def network(classes):
    def conv(i, o):
        return [nn.Conv2d(i, o, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]

    made = nn.Sequential(*conv(3, 32), *conv(32, 64), *conv(64, 128), Basic(128), *conv(128, 256),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, classes))
    for module in made.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.normal_(module.weight, std=math.sqrt(2 / module.weight[0].numel()))
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
    return made.to(memory_format=torch.channels_last)


def read(directory):
    """Returns the pictures as tensors [3, H, W] of whole numbers, and their classes in the order of the folders' names."""
    pictures, labels = [], []
    for number, name in enumerate(sorted(os.listdir(directory))):
        for file in sorted(os.listdir(os.path.join(directory, name))):
            with Image.open(os.path.join(directory, name, file)) as picture:
                pictures.append(torch.from_numpy(np.array(picture.convert("RGB"))).permute(2, 0, 1).contiguous())
            labels.append(number)
    return pictures, torch.tensor(labels)


def rate_of(step, total, warmup, peak):
    if step < warmup:
        return peak * step / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def accuracy(model, inputs, labels):
    model.eval()
    with torch.no_grad():
        return sum((model(x).argmax(1) == y).sum().item() for x, y in zip(inputs.split(128), labels.split(128))) / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=54)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)

    normalize = v2.Normalize(mean=[127.5] * 3, std=[127.5] * 3)
    augment = v2.Compose([v2.RandomResizedCrop(64, scale=(0.35, 1.0), antialias=True), v2.RandomHorizontalFlip(), normalize,
                          v2.RandomErasing(p=0.25)])
    middle = v2.Compose([lambda x: v2.functional.center_crop(x, min(x.shape[1:])), v2.Resize((64, 64), antialias=True), normalize])

    pictures, labels = read(os.path.join(args.dir, "train"))
    test_pictures, test_labels = read(os.path.join(args.dir, "test"))
    test = torch.stack([middle(x.float()) for x in test_pictures])

    model = network(int(labels.max()) + 1)
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.SGD([{"params": decay, "weight_decay": 5e-4}, {"params": plain, "weight_decay": 0.0}], lr=args.rate, momentum=0.9)
    steps = len(pictures) // args.batch
    for epoch in range(args.epochs):
        model.train()
        for number, rows in enumerate(torch.randperm(len(pictures)).split(args.batch)[:steps]):
            for group in optimizer.param_groups:
                group["lr"] = rate_of(epoch * steps + number, args.epochs * steps, 2 * steps, args.rate)
            x = torch.stack([augment(pictures[row].float()) for row in rows]).contiguous(memory_format=torch.channels_last)
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(x), labels[rows]).backward()
            optimizer.step()
    print(json.dumps({"torch": torch.__version__, "seed": args.seed, "accuracy": accuracy(model, test, test_labels)}))


if __name__ == "__main__":
    main()
