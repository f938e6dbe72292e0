"""MobileFaceNet with the names of InsightFace (Chen et al., 2018). `scale` multiplies the channels outside of units."""
from torch import nn


class Layers(nn.Module):
    """What its base class calls `layers`, one after another."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


def linear(channels, width, k=1, stride=1, pad=0, groups=1):
    return [nn.Conv2d(channels, width, k, stride, pad, groups=groups, bias=False), nn.BatchNorm2d(width)]


def conv(channels, width, k=1, stride=1, pad=0, groups=1):
    return Layers(*linear(channels, width, k, stride, pad, groups), nn.PReLU(width))


class Unit(Layers):
    def __init__(self, channels, width, inner, stride):
        super().__init__(conv(channels, inner), conv(inner, inner, 3, stride, 1, inner), Layers(*linear(inner, width)))
        self.adds = stride == 1

    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)


def units(width, count, inner):
    return Layers(*[Unit(width, width, inner, 1) for _ in range(count)])


class MobileFaceNet(nn.Module):
    def __init__(self, scale=2, dim=512, blocks=(1, 4, 6, 2)):
        super().__init__()
        a, b = 64 * scale, 128 * scale
        first = conv(a, a, 3, 1, 1, 64) if blocks[0] == 1 else units(a, blocks[0], 128)
        self.layers = nn.ModuleList([
            conv(3, a, 3, 2, 1), first, Unit(a, a, 128, 2), units(a, blocks[1], 128),
            Unit(a, b, 256, 2), units(b, blocks[2], 256), Unit(b, b, 512, 2), units(b, blocks[3], 256)])
        self.conv_sep = conv(b, 512)
        self.features = Layers(Layers(*linear(512, 512, 7, groups=512)), nn.Flatten(),
                               nn.Linear(512, dim, bias=False), nn.BatchNorm1d(dim))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.features(self.conv_sep(x))
