"""IResNet with the names of InsightFace (Deng et al., 2019): norm first, one slope of PReLU for each channel."""
from torch import nn


class Improved(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.prelu = nn.PReLU(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride > 1 or channels != width:
            self.downsample = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.bn3(self.conv2(self.prelu(self.bn2(self.conv1(self.bn1(x))))))
        return y + (x if self.downsample is None else self.downsample(x))


class IResNet(nn.Module):
    def __init__(self, depths, width=64, size=112, dim=512):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.prelu = nn.PReLU(width)
        channels = width
        for i, depth in enumerate(depths):
            units = []
            for j in range(depth):
                units.append(Improved(channels, width << i, 2 if j == 0 else 1))
                channels = width << i
            setattr(self, f"layer{i + 1}", nn.Sequential(*units))
        self.bn2 = nn.BatchNorm2d(channels)
        self.fc = nn.Linear(channels * (size // 16) ** 2, dim)
        self.features = nn.BatchNorm1d(dim)

    def forward(self, x):
        y = self.prelu(self.bn1(self.conv1(x)))
        y = self.layer4(self.layer3(self.layer2(self.layer1(y))))
        return self.features(self.fc(self.bn2(y).flatten(1)))
