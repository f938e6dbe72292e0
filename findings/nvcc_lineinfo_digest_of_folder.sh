#!/usr/bin/env bash
# nvidia-cuda-nvcc 13.0.88 (PyPI): PTX that nvcc makes with -lineinfo contains a digest of the absolute path of the
# source, spelled as numbers. An inlined function with internal linkage gets a name like _ZN27_INTERNAL_319686d2_4_k_cu_...
# in the section .debug_str, where each character is a number (95,90,78,...), so a search for the path or for
# "_INTERNAL_" does not find it. Without -lineinfo the texts are equal, since no symbol of such a function is left.
#
# A project that keeps PTX in its tree, or caches it by its digest, removes the paths of `.file` lines to get equal
# texts on all machines; texts of the folders of two people still differ. Functions that are `inline` or templates, and so
# have external linkage, have no digest.
# Seen: one source of four lines, compiled by its relative name in two folders. Without -lineinfo: equal. With it, and
# without `.file` lines: different, with _INTERNAL_ and two digests in the decoded names. With `inline` functions: equal.
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs python3-venv, g++ and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
  nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.88
WORK=$work "$work/venv/bin/python" - <<'PY'
import glob
import os
import re
import subprocess
import sys

WORK = os.environ["WORK"]
NVCC = glob.glob(os.path.join(WORK, "venv/lib/python3*/site-packages/nvidia/cu13/bin/nvcc"))[0]
SOURCE = """{kind} __device__ float twice(float x) {{ return x * 2.0f; }}
extern "C" __global__ void k(float* p) {{
  p[threadIdx.x] = twice(p[threadIdx.x]);
}}
"""


def compiled(folder, kind, *flags):
    """The PTX of the source in a folder, compiled there by its relative name, without `.file` lines."""
    place = os.path.join(WORK, folder)
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, "k.cu"), "w") as file:
        file.write(SOURCE.format(kind=kind))
    subprocess.run([NVCC, "-ptx", "-arch=compute_80", *flags, "k.cu", "-o", "k.ptx"], cwd=place, check=True)
    with open(os.path.join(place, "k.ptx")) as file:
        return [line for line in file.read().splitlines() if not line.strip().startswith(".file")]


def digests(lines):
    """The digests in the names that `.b8` lines spell."""
    codes = ",".join(line.strip()[4:] for line in lines if line.strip().startswith(".b8 "))
    text = "".join(chr(int(code)) if 32 <= int(code) < 127 else " " for code in re.findall(r"\d+", codes))
    return set(re.findall(r"_INTERNAL_([0-9a-f]{8})", text))


plain = compiled("a", "static") == compiled("b", "static")
a, b = compiled("a", "static", "-lineinfo"), compiled("b", "static", "-lineinfo")
inline = compiled("a", "inline", "-lineinfo") == compiled("b", "inline", "-lineinfo")
hidden = not any("_INTERNAL_" in line for line in a)
print("nvcc 13.0.88, one source in two folders")
print("without -lineinfo:", "equal" if plain else "different")
print("with -lineinfo, without .file lines:", "equal" if a == b else "different")
print("digests in spelled names:", len(digests(a) | digests(b)), "in two texts; a search for _INTERNAL_ finds",
      "nothing" if hidden else "them")
print("with inline functions:", "equal" if inline else "different")
as_seen = plain and a != b and hidden and len(digests(a)) == 1 and len(digests(b)) == 1 and digests(a) != digests(b) and inline
print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
