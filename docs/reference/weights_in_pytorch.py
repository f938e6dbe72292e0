"""Loads the weights that `xrun export CKPT -o model.safetensors` wrote into PyTorch. Works for every model.

    net = load("model.safetensors")            # net.stem.weight, net.one.bn.running_mean, by their paths in the model
    mine.load_state_dict(net.state_dict())     # into a module of your own whose parts have these names
"""

import json
import struct

import torch


def load(path):
    net = torch.nn.Module()
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            begin, end = entry["data_offsets"]
            values = torch.frombuffer(bytearray(file.read(end - begin)), dtype=torch.float32).reshape(entry["shape"])
            *parts, leaf = name.split(".")
            part = net
            for word in parts:
                part = part._modules.setdefault(word, torch.nn.Module())
            if leaf.startswith("running_"):
                part.register_buffer(leaf, values)
            else:
                part.register_parameter(leaf, torch.nn.Parameter(values))
    return net
