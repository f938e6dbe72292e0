"""Writes the files of PyTorch, safetensors and ONNX: make_torch.py FOLDER. README.md lists the versions."""
import collections
import json
import struct
import sys
import zipfile

import numpy as np
import onnx
import safetensors.numpy
import safetensors.torch
import torch
from onnx import TensorProto, helper, numpy_helper

out = sys.argv[1] + "/"

# Element i of each tensor is i, which is exact in every type up to 7.
x = torch.arange(6).reshape(2, 3)

types = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32",
         "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
state = collections.OrderedDict((name, x.to(torch.float32).to(getattr(torch, name))) for name in types)
state["bool"] = x % 2 == 1
state["e8m0"] = torch.tensor([1.0, 0.5, 8.0]).to(torch.float8_e8m0fnu)
base = torch.arange(24.0)
state["transposed"] = base.reshape(4, 6).t()
state["every_second"] = base[1::2]
state["middle"] = base.reshape(2, 3, 4)[:, 1:, 1:3]
state["expanded"] = torch.tensor([7.0]).expand(2, 3)
state["scalar"] = torch.tensor(3)
state["empty"] = torch.zeros(0, 4)
state["parameter"] = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
marked = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
marked.decay = False
state["parameter_with_attribute"] = marked
tagged = torch.tensor([5.0, 6.0])
tagged.tag = "a"
state["tensor_with_attribute"] = tagged
state["tied"] = state["float32"]
state["complex"] = torch.tensor([1j])
state["negated"] = torch._neg_view(torch.tensor([1.0]))
state._metadata = collections.OrderedDict({"": {"version": 1}})
torch.save(state, out + "types.pth")
torch.save(state, out + "types_legacy.pth", _use_new_zipfile_serialization=False)
torch.serialization.set_crc32_options(False)
torch.save({"w": x.float()}, out + "no_checksums.pth")
torch.serialization.set_crc32_options(True)

torch.save({"epoch": 3, "arch": "resnet", "best": np.float64(0.5), "lr": 0.1, "size": torch.Size([1, 2]),
            "device": torch.device("cpu"), "dtype": torch.float16, "missing": None,
            "state_dict": collections.OrderedDict({"conv.weight": torch.ones(2), "bn.num_batches_tracked": torch.tensor(9)}),
            "optimizer": {"state": {0: {"momentum_buffer": torch.full((2,), 2.0)}},
                          "param_groups": [{"lr": 0.1, "params": [0]}]},
            "scheduler": {"milestones": collections.Counter([30, 60])},
            "ema": [torch.full((1,), 4.0), (torch.full((1,), 5.0),)],
            "array": np.arange(6, dtype="<f4").reshape(2, 3)}, out + "nested.pth")
torch.save(torch.ones(3), out + "one_tensor.pth")
torch.save(torch.nn.Linear(2, 1), out + "module.pth")
torch.jit.script(torch.nn.Linear(2, 1)).save(out + "script.pt")


def rewrite(name, to, method=zipfile.ZIP_STORED, change=lambda member, data: data):
    """Copies an archive, with some members changed."""
    with zipfile.ZipFile(out + name) as old, zipfile.ZipFile(out + to, "w", method) as new:
        for member in old.namelist():
            data = change(member, old.read(member))
            if data is not None:
                new.writestr(zipfile.ZipInfo(member), data, method)


torch.save({"w": x.float(), "h": x.half(), "b": x.to(torch.uint8)}, out + "plain.pth")
rewrite("types.pth", "deflated.pth", zipfile.ZIP_DEFLATED)


def swap(member, data):
    if member.endswith("byteorder"):
        return b"big"
    sizes = {"0": 4, "1": 2, "2": 1}
    key = member.rsplit("/", 1)[-1]
    if "/data/" in member:
        return np.frombuffer(data, "<u%d" % sizes[key]).byteswap().tobytes()
    return data


rewrite("plain.pth", "big_endian.pth", change=swap)

safe = {name: state[name] for name in types + ["bool"]}
safe["e8m0"] = state["e8m0"]
safe["scalar"] = state["scalar"]
safe["empty"] = state["empty"]
safe["complex"] = torch.tensor([1j], dtype=torch.complex64)
safe["f4"] = torch.zeros(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
safetensors.torch.save_file(safe, out + "types.safetensors", {"format": "pt"})
safetensors.numpy.save_file({"a": np.arange(3, dtype="u1"), "b": np.arange(6, dtype="f4").reshape(2, 3)},
                            out + "numpy.safetensors")

# Data that begins at byte 8 + 79 and is not aligned, which the reference implementation reads but never writes.
text = json.dumps({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                   "b": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]}})
text += " " * (1 - len(text) % 2)
with open(out + "misaligned.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text.encode() + b"\x05" + np.array([1, 2], "<f4").tobytes())
assert safetensors.numpy.load_file(out + "misaligned.safetensors")["b"].tolist() == [1, 2]

# As huggingface_hub's split_torch_state_dict_into_shards names them.
shards = {"model-00001-of-00002.safetensors": {"a.weight": torch.ones(2, 2), "a.bias": torch.zeros(2)},
          "model-00002-of-00002.safetensors": {"b.weight": torch.full((3,), 2.0)}}
for name, tensors in shards.items():
    safetensors.torch.save_file(tensors, out + name, {"format": "pt"})
with open(out + "model.safetensors.index.json", "w") as file:
    json.dump({"metadata": {"total_size": 36}, "weight_map": {t: n for n, ts in shards.items() for t in ts}}, file,
              indent=2)

numbers = np.arange(6).reshape(2, 3)
dtypes = {"FLOAT": "f4", "DOUBLE": "f8", "FLOAT16": "f2", "INT64": "i8", "INT32": "i4", "INT16": "i2", "INT8": "i1",
          "UINT64": "u8", "UINT32": "u4", "UINT16": "u2", "UINT8": "u1"}
raw = [numpy_helper.from_array(numbers.astype("<" + code), "raw." + name) for name, code in dtypes.items()]
typed = [helper.make_tensor("typed." + name, getattr(TensorProto, name), (2, 3), numbers.flatten().tolist())
         for name in list(dtypes) + ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT8E4M3FNUZ", "FLOAT8E5M2FNUZ"]]
typed.append(helper.make_tensor("typed.BOOL", TensorProto.BOOL, (2, 3), (numbers % 2 == 1).flatten().tolist()))
other = [helper.make_tensor("strings", TensorProto.STRING, (1,), [b"a"]),
         helper.make_tensor("int4", TensorProto.INT4, (2,), [1, 2]),
         helper.make_tensor("scalar", TensorProto.FLOAT, (), [2.5]),
         helper.make_tensor("empty", TensorProto.FLOAT, (0, 4), [])]
sparse = helper.make_sparse_tensor(helper.make_tensor("sparse", TensorProto.FLOAT, (1,), [1.0]),
                                   helper.make_tensor("places", TensorProto.INT64, (1,), [2]), [4])


def model(tensors, sparse_tensors=()):
    graph = helper.make_graph([helper.make_node("Identity", ["raw.FLOAT"], ["y"])], "g", [],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3))], tensors,
                              sparse_initializer=sparse_tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


onnx.save(model(raw + typed + other, [sparse]), out + "types.onnx")
onnx.save_model(model([numpy_helper.from_array(numbers.astype("f4"), "raw.FLOAT"),
                       numpy_helper.from_array(numbers.astype("f2"), "half")]), out + "external.onnx",
                save_as_external_data=True, location="external.onnx.data", size_threshold=0)
