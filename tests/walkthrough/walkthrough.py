"""Runs the commands of a page, such as docs/start/walkthrough.md, and compares their output with the page.

  walkthrough.py [--page docs/start/walkthrough.md] [--xrun build/release/xrun] [--shared ../shared/data] [--python PYTHON]
                 [--onnx-python PYTHON] [--update]

A block that begins with ```console has commands (`$ ...`, continued on lines that begin with `> `), each followed by its
output. A block that begins with ```xgraph NAME or ```python NAME is written to the file NAME. Blocks are processed in order. All commands run
in one new directory, with `xrun` in their path and the directory of this project in the variable `checkout`. A command must
exit with 0, unless the next command is `echo $?`, whose output the page shows.

Numbers, times, digests and drawings depend on the machine and the day, so they may differ from the page. If a value matters,
a comment after the block checks it: <!-- at least 90: REGEX with one group -->. The output of the block must match REGEX.

Sections whose heading ends with (PyTorch) are skipped with a message if PYTHON lacks PyTorch, and those that end with
(onnxruntime) if the Python of --onnx-python, `$onnx_python` in the commands, lacks that. --update writes the output into the
page.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
BLOCK = re.compile(r"^```(console|(?:xgraph|python) \S+)\n(.*?)^```\n", re.M | re.S)
BAR = re.compile(r"^<!-- at least ([\d.]+): (.*) -->$", re.M)
# Matches the lines that xrun prints only on a slow machine.
OF_SLOWNESS = re.compile(r"^(\S+Z (working|waiting)|warning\[XG0812\]| *warning: a step |.* predicted (was|were) ).*\n", re.M)

# Matches the reasons for a plan, which depend on the speeds of the processor's instruction set.
REASONS = re.compile(r"^  why .*?(?=^  wrote|\Z)", re.M | re.S)
# Matches a row of a curve or of a schedule.
DRAWING = re.compile(r"^.*\|[^|]*(\||•).*$|^ *\|$")


def commands_of(block):
    """Returns the pairs of a command and its output in a console block."""
    pairs = []
    for line in block.splitlines():
        if line.startswith("$ "):
            pairs.append([line[2:], ""])
        elif line.startswith("> ") and pairs and not pairs[-1][1]:
            pairs[-1][0] += "\n" + line[2:]
        else:
            pairs[-1][1] += line + "\n"
    return pairs


def shape_of(text):
    """Returns the lines of an output without the parts that depend on the machine or the day."""
    text = OF_SLOWNESS.sub("", text)
    text = REASONS.sub("", text)
    # Whether devices wait for each other depends on the speed of the machine.
    text = re.sub(r"; waiting for heads and communication [\d.]+ %", "", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{8,32}\b", "DIGEST", text)
    text = re.sub(r"[-+]?\b\d+([ ,.]\d+)*(e[-+]?\d+)?", "N", text)
    text = re.sub(r"\d+", "N", text)
    text = re.sub(r"N (ns|us|ms|min|s|B|KiB|MiB|GiB)\b", "N", text)
    shape = []
    for line in text.splitlines():
        line = re.sub(r"\s+", " ", re.sub(r"-{3,}", "---", DRAWING.sub("DRAWING", line))).strip()
        if line and (not shape or shape[-1] != line):
            shape.append(line)
    return shape


class Walkthrough:
    def __init__(self, args, folder):
        self.args = args
        self.folder = folder
        self.status = 0
        self.faults = []
        self.environment = {**os.environ, "checkout": os.path.abspath(os.path.join(HERE, "..", "..")), "COLUMNS": "100", "NO_COLOR": "1",
                            "shared": os.path.abspath(args.shared), "python": args.python, "onnx_python": args.onnx_python,
                            "PATH": os.path.dirname(os.path.abspath(args.xrun)) + ":" + os.environ["PATH"]}

    def type(self, command):
        print(f"$ {command}", flush=True)
        done = subprocess.run(["bash", "-o", "pipefail", "-c", f"(exit {self.status})\n{command}"], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
        print(done.stdout, end="", flush=True)
        self.status = done.returncode
        return done.stdout.replace(self.folder, "~/walk")

    def console(self, block, bars):
        written, printed = "", ""
        pairs = commands_of(block)
        for index, (command, wanted) in enumerate(pairs):
            got = self.type(command)
            printed += got
            written += "$ " + command.replace("\n", "\n> ") + "\n" + got + ("" if got.endswith("\n") or not got else "\n")
            asked = index + 1 < len(pairs) and pairs[index + 1][0] == "echo $?"
            if self.status != 0 and not asked:
                self.faults.append(f"`{command}` exits {self.status}")
            if not self.args.update and shape_of(got) != shape_of(wanted):
                self.faults.append(f"`{command}` prints something else than the page:\n  page: {shape_of(wanted)}\n  here: {shape_of(got)}")
        for bar, pattern in bars:
            found = re.search(pattern, printed)
            if not found or float(found[1]) < float(bar):
                self.faults.append(f"`{pattern}` is not at least {bar}: {found[0] if found else 'it was not printed'}")
        return written


def missing_package(heading, args):
    """Returns what is missing for a section; None if nothing is."""
    for mark, python, package in (("(PyTorch)", args.python, "torch"), ("(onnxruntime)", args.onnx_python, "onnxruntime")):
        if heading.endswith(mark):
            there = os.path.exists(python) and subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode == 0
            return None if there else f"{python} has no {package}"
    return None


def run(args, folder):
    walkthrough = Walkthrough(args, folder)
    with open(args.page) as file:
        page = file.read()
    sections = re.split(r"(?=^## )", page, flags=re.M)
    for number, section in enumerate(sections):
        heading = section.splitlines()[0] if section else ""
        missing = missing_package(heading, args)
        if missing:
            print(f"skipped: {heading}: {missing}")
            continue

        def replace(block):
            if block[1] != "console":
                with open(os.path.join(folder, block[1].split()[1]), "w") as file:
                    file.write(block[2])
                return block[0]
            behind = section[block.end():].split("```")[0]
            return f"```console\n{walkthrough.console(block[2], BAR.findall(behind))}```\n"

        sections[number] = BLOCK.sub(replace, section)
    if args.update and not walkthrough.faults:
        with open(args.page, "w") as file:
            file.write("".join(sections))
    return walkthrough.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", default=os.path.join(ROOT, "docs", "start", "walkthrough.md"))
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--shared", default="../shared/data")
    parser.add_argument("--python", default=os.environ.get("XRUN_TORCH_PYTHON", sys.executable))
    parser.add_argument("--onnx-python", default=os.environ.get("XRUN_ONNX_PYTHON", os.path.abspath("build/onnx-venv/bin/python3")))
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    if not os.path.isdir(os.path.join(args.shared, "omniglot")):
        print(f"skipped: the walkthrough needs the data of {args.shared}, which is absent")
        return
    with tempfile.TemporaryDirectory() as folder:
        faults = run(args, folder)
    if faults:
        sys.exit("\n" + "\n".join(faults))
    print("\nAll output is as the page shows it.")


if __name__ == "__main__":
    main()
