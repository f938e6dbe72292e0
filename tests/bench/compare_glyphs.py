"""Compares training speeds of the glyph model: several plans of xrun and PyTorch, in turn.

  compare_glyphs.py --xrun build/release/xrun --model models/glyphs.xgraph [--torch PYTHON] [--rounds 5]

Every round runs each configuration once; the table gives medians over the rounds. Speeds are images per second in the steps
after warm-up, with augmentation in both programs. If the machine is shared, only the ratios are meaningful.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import tempfile

CONFIGS = [
    # name, precision, flags
    ("xrun, one device, two threads", ["--devices", "1"]),
    ("xrun, two stages", ["--devices", "2", "--set", "schedule.stages=2"]),
    ("xrun, two replicas", ["--devices", "2", "--set", "schedule.stages=1", "--set", "schedule.replicas=2"]),
    ("xrun, one device, --deterministic", ["--devices", "1", "--deterministic"]),
    ("xrun, two stages, --deterministic", ["--devices", "2", "--set", "schedule.stages=2", "--deterministic"]),
]
PRECISIONS = {"f32": "f32", "bf16": "mixed(bf16)"}


def run_xrun(args, precision, flags):
    """Returns images per second over the steps after warm-up, and shares of a step's time.

    The share of communication is that of the device with the longest communication. The share of idle time (the bubble) is
    the mean over the devices. The imbalance is the busy time of the busiest device, divided by the mean, less 1.
    """
    with tempfile.TemporaryDirectory() as out:
        words = [args.xrun, "train", args.model, "-C", out, "--resume", "never", "--progress", "json", "--threads", str(args.threads),
                 "--steps", str(args.warmup + args.steps), "--set", f"train.precision={PRECISIONS[precision]}",
                 "--set", "train.log.every=1 steps", "--set", "train.batch=" + str(args.batch)] + flags
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)}\n{done.stderr}")
    steps = [e for e in map(json.loads, done.stdout.splitlines()) if e["t"] == "step"][args.warmup:]
    seconds = sum(e["step_s"] for e in steps)
    busy = [sum(device) for device in zip(*(e["busy_s"] for e in steps))]
    mean = sum(busy) / len(busy)
    idle = sum(sum(e["bubble_s"]) for e in steps) / len(busy)
    return {"images_per_s": len(steps) * args.batch / seconds, "imbalance": max(busy) / mean - 1, "bubble": idle / seconds,
            "comm": sum(e["comm_s"] for e in steps) / seconds, "data": sum(e["data_s"] for e in steps) / seconds}


def run_torch(args, precision):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_glyphs.py")
    words = [args.torch, script, "--dtype", precision, "--batch", str(args.batch), "--threads", str(args.threads),
             "--steps", str(args.steps), "--warmup", str(args.warmup)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(args.threads)})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\n{done.stderr}")
    return {"images_per_s": json.loads(done.stdout.splitlines()[-1])["images_per_s"]}


def cpu_name():
    with open("/proc/cpuinfo") as info:
        return next((line.split(":")[1].strip() for line in info if line.startswith("model name")), platform.processor())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--model", default="models/glyphs.xgraph")
    parser.add_argument("--torch", help="a Python with PyTorch; without it only xrun runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--warmup", type=int, default=6)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    results = {}
    for _ in range(args.rounds):
        for precision in PRECISIONS:
            for name, flags in CONFIGS:
                results.setdefault((name, precision), []).append(run_xrun(args, precision, flags))
            if args.torch:
                results.setdefault(("PyTorch", precision), []).append(run_torch(args, precision))

    print(f"{cpu_name()}, {args.threads} threads, batch {args.batch}, {args.rounds} rounds of {args.steps} steps, medians\n")
    print("| configuration | precision | images/s | spread | of PyTorch | imbalance | bubble | exposed comm | data wait |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (name, precision), runs in results.items():
        speeds = [r["images_per_s"] for r in runs]
        median = statistics.median(speeds)
        rival = results.get(("PyTorch", precision))
        ratio = f"{median / statistics.median(r['images_per_s'] for r in rival):.2f}" if rival else "-"
        share = lambda key: f"{100 * statistics.median(r[key] for r in runs):.1f} %" if key in runs[0] else "-"
        print(f"| {name} | {precision} | {median:.0f} | {min(speeds):.0f}..{max(speeds):.0f} | {ratio} | {share('imbalance')} | "
              f"{share('bubble')} | {share('comm')} | {share('data')} |")


if __name__ == "__main__":
    main()
