"""Compares a training step of a classifier head in xrun and in PyTorch, in turn.

  compare_heads.py [--xrun build/release/xrun] [--torch PYTHON] [--classes 200K] [--dims 128 512] [--dtypes f32 bf16]
                   [--rounds 5]

In every round, `xrun bench head` runs once in its own process. Then each PyTorch variant of torch_heads.py runs one step in
its own process, which waits between rounds. A ratio divides the time of a variant's step by that of xrun in the same round;
the table has the medians, smallest and largest ratios. Without a Python that has PyTorch (--torch or XRUN_TORCH_PYTHON),
only xrun is measured. Data are synthetic, and only the head runs, without a trunk and without loading data.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

UNITS = {"K": 1_000, "M": 1_000_000}


def number(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else int(text)


def run_xrun(args, dim, dtype):
    words = [args.xrun, "bench", "head", "--classes", str(args.classes), "--dim", str(dim), "--batch", str(args.batch), "--dtype", dtype,
             "--threads", str(args.threads), "--rounds", str(args.steps), "--kept", str(args.kept), "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\n{done.stderr}")
    return json.loads(done.stdout)


class Rival:
    """A process of torch_heads.py, which runs one step for each request."""

    def __init__(self, args, kind, dim, dtype):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_heads.py")
        words = [args.torch, script, kind, str(args.classes), str(dim), str(args.batch), dtype, str(args.threads)]
        self.kind = kind
        self.steps = []
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": str(args.threads)})
        self.about = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(self.process.args)} ended with {self.process.wait()}")
        return json.loads(line)

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.steps.append(self.read())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def spread(values, form):
    """Formats the median, with the smallest and the largest value in brackets."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def mib(count):
    return f"{count / 2**20:,.0f}"


def compare(args, dim, dtype):
    """Measures one size of the head, and returns its rows of the table."""
    kinds = [] if args.torch is None else args.rivals + ([f"sampled={args.partial_fc}"] if args.partial_fc else [])
    rivals = []
    for kind in kinds:
        rival = Rival(args, kind, dim, dtype)
        if "skipped" in rival.about:
            print(f"skipped: {kind}, {dim} x {dtype}: {rival.about['skipped']}", file=sys.stderr)
            rival.end()
        else:
            rivals.append(rival)
    ours = []
    for _ in range(args.rounds):
        ours.append(run_xrun(args, dim, dtype))
        for rival in rivals:
            rival.step()
    for rival in rivals:
        rival.end()

    head = f"{args.classes:,} x {dim}, {dtype}"
    share = statistics.median(run["roofline"]["share"] for run in ours)
    processors = statistics.median(run["roofline"]["processor_share"] for run in ours)
    seconds = [run["median_s"] for run in ours]
    rows = [[head, "xrun", spread(seconds, ".3f"), "", mib(max(run["peak_bytes"] for run in ours)), mib(ours[-1]["before_bytes"]), f"{share:.2f}, by processor time {processors:.2f}"]]
    for rival in rivals:
        times = [step["seconds"] for step in rival.steps]
        ratios = [theirs / own for theirs, own in zip(times, seconds)]
        name = rival.kind if rival.kind.startswith("sampled") else f"PyTorch {rival.kind}"
        name = name.replace("sampled=", "Partial FC in PyTorch, share ")
        rows.append([head, name, spread(times, ".3f"), spread(ratios, ".2f"), mib(rival.steps[-1]["peak_bytes"]), mib(rival.about["before_bytes"]), ""])
    return ours[-1], rivals[0].about["torch"] if rivals else None, rows


def print_table(args, machine, torch, rows):
    rival = f", PyTorch {torch}" if torch else ""
    print(f"{machine['cpu']}, {machine['isa']}, {args.threads} threads, batch {args.batch}, {args.rounds} rounds{rival}: head only, synthetic rows")
    print(f"{' '.join([os.path.basename(sys.argv[0])] + sys.argv[1:])}\n")
    print("| head | what | step, s | step over xrun's | peak, MiB | before the head, MiB | of roofline |")
    print("|---|---|---|---|---|---|---|")
    print_rows(rows)


def print_rows(rows):
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def has_torch(python):
    try:
        return subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--torch", default=os.environ.get("XRUN_TORCH_PYTHON"), help="a Python with PyTorch")
    parser.add_argument("--classes", type=number, default="200K")
    parser.add_argument("--dims", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--dtypes", choices=["f32", "bf16"], nargs="+", default=["f32", "bf16"])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1, help="of xrun in a round, of which the median counts")
    parser.add_argument("--kept", type=float, default=1, help="the part of the logits that xrun keeps for the backward sweep")
    parser.add_argument("--rivals", choices=["plain", "chunked", "compiled"], nargs="+", default=["plain", "chunked", "compiled"])
    parser.add_argument("--partial-fc", type=float, metavar="SHARE", help="also Partial FC with this share of the classes")
    args = parser.parse_args()

    if args.torch is None or not has_torch(args.torch):
        print("PyTorch is not measured: give a Python that has it by --torch or XRUN_TORCH_PYTHON", file=sys.stderr)
        args.torch = None
    cases = [(dim, dtype) for dim in args.dims for dtype in args.dtypes]
    print_table(args, *compare(args, *cases[0]))
    for case in cases[1:]:
        print_rows(compare(args, *case)[2])


if __name__ == "__main__":
    main()
