"""EfficientNet-B0 with the names of timm or of torchvision (Tan, Le, 2019)."""
from torch import nn


def conv(channels, width, k=1, stride=1, groups=1):
    return nn.Conv2d(channels, width, k, stride, k // 2, groups=groups, bias=False)


class Squeeze(nn.Module):
    def __init__(self, channels, squeezed, names):
        super().__init__()
        self.names = names
        setattr(self, names[0], nn.Conv2d(channels, squeezed, 1))
        setattr(self, names[1], nn.Conv2d(squeezed, channels, 1))

    def forward(self, x):
        first, second = (getattr(self, name) for name in self.names)
        y = nn.functional.silu(first(x.mean((2, 3), keepdim=True)))
        return x * second(y).sigmoid()


class TimmUnit(nn.Module):
    def __init__(self, channels, width, k, stride, expand):
        super().__init__()
        inner = channels * expand
        self.expands = expand > 1
        self.adds = stride == 1 and channels == width
        if self.expands:
            self.conv_pw, self.bn1 = conv(channels, inner), nn.BatchNorm2d(inner)
            self.conv_pwl, self.bn3 = conv(inner, width), nn.BatchNorm2d(width)
        else:
            self.bn1 = nn.BatchNorm2d(inner)
            self.conv_pw, self.bn2 = conv(inner, width), nn.BatchNorm2d(width)
        self.conv_dw = conv(inner, inner, k, stride, inner)
        if self.expands:
            self.bn2 = nn.BatchNorm2d(inner)
        self.se = Squeeze(inner, max(1, channels // 4), ("conv_reduce", "conv_expand"))

    def forward(self, x):
        silu = nn.functional.silu
        if self.expands:
            y = silu(self.bn1(self.conv_pw(x)))
            y = self.bn3(self.conv_pwl(self.se(silu(self.bn2(self.conv_dw(y))))))
        else:
            y = self.bn2(self.conv_pw(self.se(silu(self.bn1(self.conv_dw(x))))))
        return x + y if self.adds else y


class VisionUnit(nn.Module):
    def __init__(self, channels, width, k, stride, expand):
        super().__init__()
        inner = channels * expand
        self.adds = stride == 1 and channels == width
        parts = [nn.Sequential(conv(channels, inner), nn.BatchNorm2d(inner), nn.SiLU())] if expand > 1 else []
        parts += [nn.Sequential(conv(inner, inner, k, stride, inner), nn.BatchNorm2d(inner), nn.SiLU()),
                  Squeeze(inner, max(1, channels // 4), ("fc1", "fc2")),
                  nn.Sequential(conv(inner, width), nn.BatchNorm2d(width))]
        self.block = nn.Sequential(*parts)

    def forward(self, x):
        return x + self.block(x) if self.adds else self.block(x)


# width, size of windows, depth, stride and expansion of each stage
B0 = [(16, 3, 1, 1, 1), (24, 3, 2, 2, 6), (40, 5, 2, 2, 6), (80, 3, 3, 2, 6), (112, 5, 3, 1, 6), (192, 5, 4, 2, 6),
      (320, 3, 1, 1, 6)]


def stages_of(unit, channels, stages):
    made = []
    for width, k, depth, stride, expand in stages:
        units = []
        for i in range(depth):
            units.append(unit(channels, width, k, stride if i == 0 else 1, expand))
            channels = width
        made.append(nn.Sequential(*units))
    return made, channels


class TimmEfficientNet(nn.Module):
    def __init__(self, stem=32, stages=B0, top=1280, classes=1000):
        super().__init__()
        self.conv_stem, self.bn1 = conv(3, stem, 3, 2), nn.BatchNorm2d(stem)
        blocks, channels = stages_of(TimmUnit, stem, stages)
        self.blocks = nn.Sequential(*blocks)
        self.conv_head, self.bn2 = conv(channels, top), nn.BatchNorm2d(top)
        self.classifier = nn.Linear(top, classes)

    def forward(self, x):
        silu = nn.functional.silu
        y = self.blocks(silu(self.bn1(self.conv_stem(x))))
        return self.classifier(silu(self.bn2(self.conv_head(y))).mean((2, 3)))


class VisionEfficientNet(nn.Module):
    def __init__(self, stem=32, stages=B0, top=1280, classes=1000):
        super().__init__()
        blocks, channels = stages_of(VisionUnit, stem, stages)
        self.features = nn.Sequential(
            nn.Sequential(conv(3, stem, 3, 2), nn.BatchNorm2d(stem), nn.SiLU()), *blocks,
            nn.Sequential(conv(channels, top), nn.BatchNorm2d(top), nn.SiLU()))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(top, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))
