"""The networks that are compared: PyTorch's module, and the same network as a text of xrun."""
from dataclasses import dataclass
from typing import Callable

from efficientnet import TimmEfficientNet, VisionEfficientNet
from iresnet import IResNet
from mobilefacenet import MobileFaceNet
from resnet import Basic, Bottleneck, ResNet
from vit import ViT


@dataclass
class Case:
    make: Callable  # makes PyTorch's module; None: only a package has it
    size: int  # height and width of its pictures
    uses: str  # blocks of std/nets
    network: str  # from `image` to the value whose numbers are compared
    last_norms: tuple = ()  # parts of the names of norms that end a residual branch


def stem(unit, width, depths):
    layers = " -> ".join(f"{unit}_stage({width << i}, {depth}{', stride=1' if i == 0 and unit != 'improved' else ''})"
                         f" as layer{i + 1}" for i, depth in enumerate(depths))
    return layers


def residual(unit, width, depths, classes):
    return (f"conv({width}, 7, stride=2) as stem -> bn -> relu -> max_pool(3, stride=2) -> "
            f"{stem(unit, width, depths)} -> global_avg_pool -> linear({classes}) as fc")


# Small networks, whose results are in tests/golden/import/.
SMALL = {
    "bottlenecks": Case(lambda: ResNet(Bottleneck, [1, 3, 1, 1], 8, 10), 32, "bottleneck_stage",
                        residual("bottleneck", 8, [1, 3, 1, 1], 10), ("bn3",)),
    "basic_units": Case(lambda: ResNet(Basic, [1, 3, 1, 1], 8, 10), 32, "basic_stage",
                        residual("basic", 8, [1, 3, 1, 1], 10), ("bn2",)),
    "iresnet": Case(lambda: IResNet([1, 3, 1, 1], 8, 32, 16), 32, "improved_stage",
                    f"conv(8, 3) as stem -> bn -> prelu -> {stem('improved', 8, [1, 3, 1, 1])} -> bn -> flatten "
                    "-> linear(16) as embed -> bn", ("bn3",)),
    "mobilefacenet": Case(lambda: MobileFaceNet(1, 16), 112, "mobilefacenet", "mobilefacenet(16)",
                          ("layers.2.layers.1",)),
    "mbf": Case(lambda: MobileFaceNet(2, 16), 112, "mobilefacenet", "mobilefacenet(16, scale=2)",
                ("layers.2.layers.1",)),
    "vit": Case(lambda: ViT(32, 3, 4, 8, 32, 10), 32, "vit", "vit(32, 3, 4, 8) -> linear(10) as fc"),
    "timm_efficientnet": Case(lambda: TimmEfficientNet(classes=10), 64, "efficientnet_b0",
                              "efficientnet_b0 -> linear(10) as fc", ("bn3",)),
    "torchvision_efficientnet": Case(lambda: VisionEfficientNet(classes=10), 64, "efficientnet_b0",
                                     "efficientnet_b0 -> linear(10) as fc", ("block.3.1",)),
}

# Networks of their published sizes, which compare.py compares.
FULL = {
    "resnet50": Case(lambda: ResNet(Bottleneck, [3, 4, 6, 3]), 224, "resnet",
                     "resnet([3, 4, 6, 3]) as backbone -> linear(1000) as fc", ("bn3",)),
    "resnet18": Case(lambda: ResNet(Basic, [2, 2, 2, 2]), 224, "basic_resnet",
                     "basic_resnet([2, 2, 2, 2]) as backbone -> linear(1000) as fc", ("bn2",)),
    "iresnet50": Case(lambda: IResNet([3, 4, 14, 3]), 112, "iresnet", "iresnet([3, 4, 14, 3]) as backbone", ("bn3",)),
    "mbf": Case(lambda: MobileFaceNet(2, 512), 112, "mobilefacenet", "mobilefacenet(512, scale=2) as backbone",
                ("layers.2.layers.1",)),
    "mbf_large": Case(lambda: MobileFaceNet(4, 512, (2, 8, 12, 4)), 112, "mbf_large", "mbf_large as backbone",
                      ("layers.2.layers.1",)),
    "vit_small_patch16_224": Case(lambda: ViT(384, 12, 6, 16, 224), 224, "vit",
                                  "vit(384, 12, 6, 16) as backbone -> linear(1000) as fc"),
    "torchvision_vit_b_16": Case(None, 224, "vit", "vit(768, 12, 12, 16) as backbone -> linear(1000) as fc"),
    "efficientnet_b0": Case(lambda: TimmEfficientNet(), 224, "efficientnet_b0",
                            "efficientnet_b0 as backbone -> linear(1000) as fc", ("bn3",)),
    "torchvision_efficientnet_b0": Case(lambda: VisionEfficientNet(), 224, "efficientnet_b0",
                                        "efficientnet_b0 as backbone -> linear(1000) as fc", ("block.3.1",)),
}


def packages():
    """The same networks as packages make them, where they are installed, by the keys of FULL."""
    made = {}
    try:
        from torchvision import models

        made["resnet50"] = models.resnet50
        made["resnet18"] = models.resnet18
        made["torchvision_vit_b_16"] = models.vit_b_16
        made["torchvision_efficientnet_b0"] = models.efficientnet_b0
    except ImportError:
        pass
    try:
        import timm

        for name in ("vit_small_patch16_224", "efficientnet_b0"):
            made[name] = lambda name=name: timm.create_model(name)
    except ImportError:
        pass
    return made


def text_of(case, samples):
    """A model file that computes the network from the samples of x.npy. Its last layer makes the logits of the classes,
    or if it makes an embedding, a head of two classes follows."""
    classes = case.network.rpartition(" -> linear(")[2].partition(")")[0] if case.network.endswith(" as fc") else ""
    head = "" if classes else "\n  head id = classifier(y, 2)"
    return f"""xgraph 1

from "std/nets" use {case.uses}

model m {{
  input image: f32[N, 3, {case.size}, {case.size}]

  y = image -> {case.network}
  output y{head}
}}

data d {{
  source train = npy("x.npy", labels="labels.npy", layout="chw")
  source test  = npy("x.npy", labels="labels.npy", layout="chw")

  image = value
  label = label -> as_index({classes or 2})
}}

train t {{
  batch     = {samples}
  norm_rows = {samples}
  steps     = 1
  loss      = softmax_ce({'y' if classes else 'id'}, label)
  optimizer = sgd
  lr        = 0.1
}}
"""
