#!/usr/bin/env python3
"""Compares element-wise functions (forward and backward) and optimizer steps: xrun's compiled loops and torch.compile.

  python3 tests/bench/torch_functions.py [--rounds 5]

Needs PyTorch 2.13 in the Python that runs this script, and build/release/xrun_ops_bench. Both programs compute on two
threads and run in turn; the results are medians. Tensors have 8192 x 1024 elements. If a ratio is above 1, xrun is faster.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

ROWS, WIDTH = 8192, 1024
BENCH = pathlib.Path(__file__).parents[2] / "build/release/xrun_ops_bench"


def hswish(x):
    return x * (torch.clamp(x + 3, 0, 6) / 6)


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def swiglu(x, y):
    return F.silu(x) * y


def bias_silu_residual(x, r, b):
    return F.silu(x + b) + r


def focal_loss(x, t):
    p = torch.sigmoid(x)
    away = 1 - (p * t + (1 - p) * (1 - t))
    return (torch.clamp(x, min=0) - x * t + torch.log(1 + torch.exp(-torch.abs(x)))) * (away * away)


def function_case(function, dtype):
    x, y, g = (torch.rand(ROWS, WIDTH, dtype=dtype) for _ in range(3))
    bias = torch.rand(WIDTH)
    trained = {hswish: (x,), gelu_tanh: (x,), swiglu: (x, y), bias_silu_residual: (x, bias), focal_loss: (x,)}[function]
    operands = {hswish: (x,), gelu_tanh: (x,), swiglu: (x, y), bias_silu_residual: (x, y, bias), focal_loss: (x, y)}[function]
    for value in trained:
        value.requires_grad_()
    if function is bias_silu_residual and dtype != torch.float32:
        compiled = torch.compile(lambda a, r, b: bias_silu_residual(a, r, b.to(dtype)))
    else:
        compiled = torch.compile(function)

    def run():
        for value in trained:
            value.grad = None
        compiled(*operands).backward(g)

    return run


@torch.compile
def adamw_step(w, g, m, v):
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    w.sub_(1e-3 * (m * (1 / (1 - 0.9 ** 11)) / (torch.sqrt(v * (1 / (1 - 0.999 ** 11))) + 1e-8) + 0.01 * w))


@torch.compile
def lamb_step(w, g, m, v):
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    step = m * (1 / (1 - 0.9 ** 11)) / (torch.sqrt(v * (1 / (1 - 0.999 ** 11))) + 1e-6) + 0.01 * w
    w.sub_(1e-3 * (torch.linalg.vector_norm(w) / torch.linalg.vector_norm(step)) * step)


def step_case(step):
    arrays = [torch.full((ROWS * WIDTH,), 0.01) for _ in range(4)]
    return lambda: step(*arrays)


def seconds(run):
    begin = time.perf_counter()
    count = 0
    while time.perf_counter() - begin < 0.3:
        run()
        count += 1
    return (time.perf_counter() - begin) / count


def of_xrun(name, is_step):
    test = f"^{'peer_step' if is_step else 'peer'}/{name}/"
    out = subprocess.run([BENCH, f"--benchmark_filter={test}", "--benchmark_format=json"], check=True, capture_output=True)
    (one,) = json.loads(out.stdout)["benchmarks"]
    return ROWS * WIDTH / one["items_per_second"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(2)
    cases = []
    for function in (hswish, gelu_tanh, swiglu, bias_silu_residual, focal_loss):
        for dtype, short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
            cases.append((f"{function.__name__}_{short}", False, function_case(function, dtype)))
    cases.append(("adamw_f32", True, step_case(adamw_step)))
    cases.append(("lamb_f32", True, step_case(lamb_step)))
    ratios = []
    print("| function | torch.compile, ms | xrun, ms | xrun is faster by |\n|---|---|---|---|")
    for name, is_step, run in cases:
        run()
        run()
        theirs, ours = [], []
        for _ in range(rounds):
            theirs.append(seconds(run))
            ours.append(of_xrun(name, is_step))
        ratio = statistics.median(theirs) / statistics.median(ours)
        ratios.append(ratio)
        print(f"| {name} | {statistics.median(theirs) * 1e3:.1f} | {statistics.median(ours) * 1e3:.1f} | {ratio:.2f} |", flush=True)
    print(f"\ngeometric mean {math.exp(statistics.mean(map(math.log, ratios))):.2f}, least {min(ratios):.2f}")


main()
