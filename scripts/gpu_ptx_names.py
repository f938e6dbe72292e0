#!/usr/bin/env python3
"""Replaces the digests of paths in the debug information of a PTX text by zeros (scripts/gpu_ptx.sh).

    gpu_ptx_names.py TEXT

nvcc writes names of inlined functions as lists of character codes. A name with internal linkage has `_INTERNAL_`, eight
hexadecimal digits that depend on the folder of the source, and `_`.
"""
import re
import sys

NEXT = r"(?:,|\n\.b8 )"
INTERNAL = NEXT.join(str(ord(letter)) for letter in "_INTERNAL_") + NEXT


def zeros(match):
    return match[1] + re.sub(r"(?<!b)\d+", "48", match[2])


with open(sys.argv[1], encoding="ascii") as file:
    text = file.read()
with open(sys.argv[1], "w", encoding="ascii") as file:
    file.write(re.sub(f"({INTERNAL})((?:\\d+{NEXT}){{8}})", zeros, text))
