#!/usr/bin/env python3
"""Prints the static facts of the kernels of GPUs, by kernel and architecture, as tests/golden/gpu/static.txt has them
(make gpu-static; docs/internals/gpu_kernels.md). The PTX of ops/gpu/ptx.tar.xz is compiled by ptxas, and the machine code
is read by nvdisasm; both are searched in PATH, in /usr/local/cuda and in build/gpu-venv.

Exits with 1 if a kernel spills registers, uses local memory or has an atomic operation on floating-point numbers, or if a
bf16 product has no instruction of tensor cores; with 77 if a tool is missing.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ARCHITECTURES = ((80, 80), (90, 90), (100, 90))  # machine code, and the PTX from which it is made


ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def tool(name):
    installed = glob.glob(os.path.join(ROOT, "build/gpu-venv/lib/python3*/site-packages/nvidia/cu13/bin"))
    path = shutil.which(name) or shutil.which(name, path=os.pathsep.join(["/usr/local/cuda/bin", *installed]))
    if path is None:
        sys.stderr.write(f"{name} was not found: install the CUDA toolkit 13.0, and nvidia-cuda-nvdisasm from PyPI\n")
        sys.exit(77)
    return path


def facts_of(ptxas, nvdisasm, text, architecture, cubin):
    """The facts of each kernel of a PTX text: registers, shared bytes, stack bytes, spilled bytes, accesses to local
    memory, atomic operations on floating-point numbers, instructions of tensor cores."""
    made = subprocess.run([ptxas, f"-arch=sm_{architecture}", "-v", text, "-o", cubin], check=True, capture_output=True,
                          text=True)
    kernels = {}
    for line in made.stderr.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            name = match.group(1)
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, stores, loads = map(int, match.groups())
        elif match := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            kernels[name] = [int(match.group(1)), int(shared.group(1)) if shared else 0, stack, stores + loads, 0, 0, 0]
    code = subprocess.run([nvdisasm, "-c", cubin], check=True, capture_output=True, text=True).stdout
    for line in code.splitlines():
        if match := re.match(r"\.text\.(\w+):", line):
            facts = kernels[match.group(1)]
        elif re.search(r"\b(LDL|STL)\b", line):
            facts[4] += 1
        elif re.search(r"\b(ATOM|ATOMG|ATOMS|RED|REDG)\.\S*\b(F16|BF16|F32|F64)", line):
            facts[5] += 1
        elif re.search(r"\b\w*(HMMA|HGMMA|UTCHMMA)\b", line):
            facts[6] += 1
    return kernels


def main():
    ptxas, nvdisasm = tool("ptxas"), tool("nvdisasm")
    faults = []
    print(f"{'kernel':<26}{'arch':>7}{'registers':>11}{'shared':>8}{'stack':>7}{'spills':>8}{'local':>7}"
          f"{'float atomics':>15}{'tensor cores':>14}")
    with tempfile.TemporaryDirectory() as work:
        with tarfile.open(os.path.join(ROOT, "ops/gpu/ptx.tar.xz")) as packed:
            packed.extractall(work)
        rows = {}
        for name in sorted(os.listdir(work)):
            for architecture, compute in ARCHITECTURES:
                if name.endswith(f"_{compute}.ptx"):
                    found = facts_of(ptxas, nvdisasm, os.path.join(work, name), architecture, os.path.join(work, "cubin"))
                    rows.update({(kernel, architecture): facts for kernel, facts in found.items()})
        for (kernel, architecture), facts in sorted(rows.items()):
            registers, shared, stack, spills, local, atomics, tensor = facts
            print(f"{kernel:<26}{'sm_' + str(architecture):>7}{registers:>11}{shared:>8}{stack:>7}{spills:>8}{local:>7}"
                  f"{atomics:>15}{tensor:>14}")
            if stack or spills or local or atomics:
                faults.append(f"{kernel}, sm_{architecture}: local memory or float atomics")
            if re.fullmatch(r"(product_|conv|attention)\w*_bf16", kernel) and not tensor:
                faults.append(f"{kernel}, sm_{architecture}: no instruction of tensor cores")
    for fault in faults:
        sys.stderr.write(fault + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
