"""Numbers for the tensors of a network. They are computed from the names, so that a test in C++ makes the same ones."""
import numpy as np

MASK = (1 << 64) - 1


def name_hash(name):
    """FNV-1a, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def uniform(name, count):
    """Multiples of 2^-24 in [0, 1): SplitMix64 of the name's hash and the number of the element."""
    z = np.uint64(name_hash(name)) + np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / 2**24


def values(name, shape, low, high):
    count = int(np.prod(shape, dtype=np.int64))
    return (low + (high - low) * uniform(name, count)).astype(np.float32).reshape(shape)


def range_of(name, shape, after_sum):
    """The smallest and the largest number of a tensor, so that numbers keep their size through the network.
    `after_sum`: the norm is the last of a residual branch, whose sum should not grow."""
    last = name.rsplit(".", 1)[-1]
    if last == "running_var":
        return 0.5, 1.5
    if last == "num_batches_tracked":
        return 5.0, 5.0
    if last in ("running_mean", "bias", "cls_token", "class_token", "pos_embed", "pos_embedding",
                "in_proj_bias"):
        return -0.2, 0.2
    if len(shape) == 1:
        return (0.1, 0.3) if after_sum else (0.5, 1.0)  # of a norm, or slopes of PReLU
    fan_in = int(np.prod(shape[1:]))
    return -round((6 / fan_in) ** 0.5, 4), round((6 / fan_in) ** 0.5, 4)


def fill(model, last_norms):
    """Fills a model, and returns shape, lowest and highest number of each tensor."""
    import torch

    ranges = {}
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            low, high = range_of(name, tuple(tensor.shape), any(part in name for part in last_norms))
            ranges[name] = (list(tensor.shape), low, high)
            tensor.copy_(torch.from_numpy(np.asarray(values(name, tuple(tensor.shape), low, high))))
    return ranges
