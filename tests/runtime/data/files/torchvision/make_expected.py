"""Writes expected.txt: results of torchvision for the pictures that rand_augment_test.cpp and transform_test.cpp make.

Run with torch 2.13.0, torchvision 0.28.0 and Pillow 13.0.0: python make_expected.py > expected.txt
"""
import torch
from PIL import Image
from torchvision.transforms import functional as F
from torchvision.transforms.autoaugment import RandAugment, _apply_op
from torchvision.transforms.functional import InterpolationMode

WIDTH, HEIGHT = 23, 17
OPS = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
       "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"]
MAGNITUDES = [0, 1, 5, 9, 14, 15, 16, 20, 29, 30]


def pixel(c, y, x):
    return 20 + (9 * x + 5 * y + 40 * c + x * y * (c + 3) % 37) % 190


def picture(channels):
    planes = [Image.frombytes("L", (WIDTH, HEIGHT), bytes(pixel(c, y, x) for y in range(HEIGHT) for x in range(WIDTH)))
              for c in range(channels)]
    return planes[0] if channels == 1 else Image.merge("RGB", planes)


def fnv1a(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return value


def digest(image):
    return fnv1a(b"".join(band.tobytes() for band in image.split()))


print("# op, magnitude, sign, channels, fill, FNV-1a of the planes")
space = RandAugment()._augmentation_space(31, (HEIGHT, WIDTH))
for number, op in enumerate(OPS):
    magnitudes, signed = space[op]
    for m in MAGNITUDES:
        for sign in ([1, -1] if signed else [1]):
            strength = float(magnitudes[m].item()) if magnitudes.ndim > 0 else 0.0
            for channels in (1, 3):
                for fill in ([0, 77] if 1 <= number <= 5 else [0]):
                    out = _apply_op(picture(channels), op, sign * strength, InterpolationMode.NEAREST,
                                    [float(fill)] * channels)
                    print("op", number, m, sign, channels, fill, f"{digest(out):016x}")

tensor = torch.tensor([[[float(pixel(0, y, x)) for x in range(WIDTH)] for y in range(HEIGHT)]])


def numbers(values):
    return " ".join(f"{v:.4f}" for v in values.flatten().tolist())


print("# blur, kernel, sigma, pixels")
for kernel, sigma in ((3, 0.5), (5, 1.3), (9, 2.0)):
    print("blur", kernel, sigma, numbers(F.gaussian_blur(tensor, [kernel, kernel], [sigma, sigma])))
print("# affine, degrees, scale, shear along x, shear along y, pixels")
for degrees, scale, x, y in ((30, 1, 0, 0), (-12.5, 1.25, 10, 0), (75, 0.8, -20, 15)):
    out = F.affine(tensor, degrees, [0, 0], scale, [x, y], InterpolationMode.BILINEAR)
    print("affine", degrees, scale, x, y, numbers(out))
