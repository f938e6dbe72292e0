"""How soon a run of several processes sees that a rank has died or is frozen, and how soon it takes steps again.

  rank_failures.py DIR [--xrun build/release/xrun] [--ranks 3] [--rounds 20] [--seed 1]

Each round starts `xrun train --restarts 1 -- mpirun -n RANKS xrun train` on a small synthetic model, waits for its first checkpoint and a
random time more, and then kills (SIGKILL) or freezes (SIGSTOP) a random rank, in turn. Prints seconds from the signal to the message
that names the rank, and to the first step after the restart: median, 95th percentile and largest. Needs Open MPI's mpirun.
"""

import argparse
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import threading
import time

MODEL = """xgraph 1
model small {
  input x: f32[N, 32]
  feature = x -> linear(64) -> relu
  output feature
  head id = classifier(feature, 1000)
}
data d {
  source train = synthetic(classes=1000, samples=20_000, shape=[32])
  x = pixels
}
train quick {
  batch      = 32
  epochs     = 100_000
  loss       = softmax_ce(id, label)
  optimizer  = sgd(momentum=0.9)
  lr         = 0.01
  checkpoint { every = 200 steps }
  log { every = 1 steps }
}
"""


def ranks_of(launcher):
    """Process ids of the ranks below the launcher, by rank."""
    found = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as environment:
                variables = dict(part.split(b"=", 1) for part in environment.read().split(b"\0") if b"=" in part)
            with open(f"/proc/{name}/cmdline", "rb") as words:
                command = words.read().split(b"\0")
        except (OSError, ValueError):
            continue
        if variables.get(b"XRUN_ROUND") == launcher and b"OMPI_COMM_WORLD_RANK" in variables and command[0].endswith(b"xrun"):
            found[int(variables[b"OMPI_COMM_WORLD_RANK"])] = int(name)
    return found


def play(args, chance, number, how):
    directory = os.path.join(args.dir, "round")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    with open(os.path.join(directory, "small.xgraph"), "w") as model:
        model.write(MODEL)
    xrun = os.path.abspath(args.xrun)
    mark = f"{os.getpid()}-{number}"
    variables = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "XRUN_ROUND": mark}
    run = subprocess.Popen([xrun, "train", "--restarts", "1", "--", "mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(args.ranks),
                            xrun, "train", "small.xgraph", "--devices", str(args.ranks), "--progress", "plain"],
                           cwd=directory, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    seen = {}
    first = threading.Event()

    def read():
        for line in run.stderr:
            now = time.monotonic()
            if " checkpoint step=" in line:
                first.set()
            if "signal" in seen:
                if "error[XG0840]" in line:
                    seen.setdefault("lost", now)
                    seen.setdefault("message", line.strip())
                elif " resume" in line:
                    seen.setdefault("resumed", now)
                elif " step=" in line and "resumed" in seen:
                    seen.setdefault("step", now)

    reader = threading.Thread(target=read)
    reader.start()
    first.wait(60)
    time.sleep(chance.uniform(0, 1))
    victim = chance.randrange(args.ranks)
    seen["signal"] = time.monotonic()
    os.kill(ranks_of(mark.encode())[victim], signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    while time.monotonic() - seen["signal"] < 60 and "step" not in seen:
        time.sleep(0.01)
    run.send_signal(signal.SIGTERM)
    run.wait(60)
    reader.join()
    named = re.search(r"rank (\d+)", seen.get("message", ""))
    return {"lost": seen.get("lost", float("inf")) - seen["signal"], "step": seen.get("step", float("inf")) - seen["signal"],
            "right": named is not None and int(named.group(1)) == victim}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    print(f"seed {args.seed}, {args.ranks} ranks")
    for how in ("killed", "frozen"):
        rounds = [play(args, chance, f"{how}-{i}", how) for i in range(args.rounds)]
        for what in ("lost", "step"):
            times = sorted(one[what] for one in rounds)
            print(f"{how}, to the {'message' if what == 'lost' else 'first new step'}: median {statistics.median(times):.2f} s, "
                  f"95 % {times[min(len(times) - 1, int(0.95 * len(times)))]:.2f} s, largest {times[-1]:.2f} s")
        print(f"{how}: {sum(one['right'] for one in rounds)} of {len(rounds)} named the rank")


if __name__ == "__main__":
    main()
