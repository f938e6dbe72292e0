"""Writes the files of PaddlePaddle: make_paddle.py FOLDER. README.md lists the versions."""
import sys

import numpy as np
import paddle
import paddle.framework.io_utils as io_utils

out = sys.argv[1] + "/"


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = paddle.nn.Linear(3, 2)
        self.bn = paddle.nn.BatchNorm1D(2)


net = Net()
net.fc.weight.set_value(paddle.arange(6).reshape([3, 2]).astype("float32"))
for protocol in [2, 4]:
    paddle.save(net.state_dict(), out + f"net_p{protocol}.pdparams", protocol=protocol)
paddle.save({"model": net.state_dict(), "epoch": 3, "bf16": paddle.arange(4).astype("bfloat16")},
            out + "nested.pdparams")
x = paddle.arange(6).reshape([2, 3])
paddle.save({name: x.astype(name) for name in ["float64", "float16", "bfloat16", "int64", "int32", "int16", "int8",
                                               "uint8", "bool"]}, out + "types.pdparams")

# paddle.save splits an array above 1 GiB in protocol 2 and 3; here the same function splits arrays above 16 bytes.
source = open(io_utils.__file__).read()
scope = dict(vars(io_utils))
begin = source.index("def _unpack_saved_dict")
exec(source[begin:source.index("\n\n\ndef", begin)].replace("2**30 - 1", "17"), scope)
paddle.framework.io._unpack_saved_dict = scope["_unpack_saved_dict"]
paddle.save(net.state_dict(), out + "split_p2.pdparams", protocol=2)
