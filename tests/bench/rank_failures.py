"""Measures how soon a run of several processes detects a killed or frozen rank and continues, and the cost of failures.

  rank_failures.py DIR [--xrun build/release/xrun] [--ranks 3] [--rounds 20] [--seed 1]
  rank_failures.py DIR --useful MINUTES [--mean-gap 60] [--model FILE] [--set NAME=VALUE ...] [--xrun ...] [--ranks 3]
                   [--seed 1]

Each round starts `xrun train --restarts 1 -- mpirun -n RANKS xrun train` on a small synthetic model, and waits for its first
checkpoint and for a random time. Then it kills a random rank (SIGKILL); after all these rounds, other rounds freeze a rank
(SIGSTOP). Prints the seconds from the signal to the message that names the rank, and to the first step after the restart:
median, 95th percentile and largest.

With --useful, one run (of FILE, or of the small model) repeatedly loses a random rank. The times between the failures have
an exponential distribution with a mean of --mean-gap seconds, and the run saves every `auto(mtbf=...)` of this mean. Prints
the useful time as a share of the time since the first step: the number of steps that the run has kept, times the mean time
of a step without a save or a start. Needs Open MPI's mpirun.
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
    """Returns the process ids of the launcher's ranks, by rank. `launcher` is the mark of the run (see start)."""
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


def start(args, directory, mark, restarts, model, flags):
    """Starts a run of `model` in a directory. `mark` is in the environment of its ranks; its progress is on stderr."""
    xrun = os.path.abspath(args.xrun)
    variables = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "XRUN_ROUND": mark}
    return subprocess.Popen([xrun, "train", "--restarts", str(restarts), "--", "mpirun", "--oversubscribe", "--bind-to", "none", "-n",
                             str(args.ranks), xrun, "train", model, "--devices", str(args.ranks), "--progress", "plain", *flags],
                            cwd=directory, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def play(args, chance, number, how):
    directory = os.path.join(args.dir, "round")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    with open(os.path.join(directory, "small.xgraph"), "w") as model:
        model.write(MODEL)
    mark = f"{os.getpid()}-{number}"
    run = start(args, directory, mark, 1, "small.xgraph", [])
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


class Run:
    """A run of `xrun train --restarts` in its own directory, and the steps that it has reported."""

    def __init__(self, args, mark, model):
        directory = os.path.join(args.dir, "useful")
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)
        self.mark = mark
        settings = [f"train.checkpoint.every=auto(mtbf={args.mean_gap:g}s)", "train.log.every=1 steps", "train.epochs=1000", *args.set]
        self.run = start(args, directory, mark, 1000, model, [*[word for setting in settings for word in ("--set", setting)], "-C", "ckpt"])
        self.steps = []  # (time, step, saves so far, starts so far) for each step, in the order of the log
        self.saves = 0
        self.starts = 0
        self.tail = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.run.stderr:
            self.starts += " start model=" in line
            self.tail = [*self.tail[-20:], line]
            self.saves += " checkpoint step=" in line
            if step := re.match(r"\S+ step=(\d+)", line):
                self.steps.append((time.monotonic(), int(step.group(1)), self.saves, self.starts))

    def wait_for_a_step(self, after):
        """Waits until the run reports a step after the time `after`."""
        while not self.steps or self.steps[-1][0] < after:
            if self.run.poll() is not None:
                raise SystemExit("the run ended:\n" + "".join(self.tail))
            time.sleep(0.01)

    def end(self):
        self.run.send_signal(signal.SIGTERM)
        try:
            self.run.wait(120)
        finally:
            self.run.kill()
        self.reader.join()


def kill_one(run, chance):
    """Kills a random rank. Returns whether there was a rank: during a start there may be no ranks."""
    ranks = ranks_of(run.mark.encode())
    try:
        os.kill(ranks[chance.choice(sorted(ranks))], signal.SIGKILL)
        return True
    except (IndexError, ProcessLookupError):
        return False


def break_again_and_again(args, chance, run):
    """Kills ranks at random times for --useful minutes, and returns the number of kills."""
    run.wait_for_a_step(0)
    kills = 0
    until = run.steps[0][0] + 60 * args.useful
    while True:
        gap = chance.expovariate(1 / args.mean_gap)
        if time.monotonic() + gap > until:
            time.sleep(max(0.0, until - time.monotonic()))
            run.wait_for_a_step(time.monotonic() - 1)
            return kills
        time.sleep(gap)
        killed = time.monotonic()
        kills += kill_one(run, chance)
        run.wait_for_a_step(killed + 0.1)


def useful_time(args, chance):
    model = os.path.join(os.path.abspath(args.dir), "small.xgraph")
    os.makedirs(args.dir, exist_ok=True)
    with open(model, "w") as text:
        text.write(MODEL)
    model = os.path.abspath(args.model) if args.model else model
    run = Run(args, f"{os.getpid()}", model)
    try:
        kills = break_again_and_again(args, chance, run)
    finally:
        run.end()
    pairs = list(zip(run.steps, run.steps[1:]))
    starts = [(before, after) for before, after in pairs if after[3] != before[3]]
    plain = [after[0] - before[0] for before, after in pairs if after[2:] == before[2:]]
    saving = [after[0] - before[0] for before, after in pairs if after[3] == before[3] and after[2] != before[2]]
    wall = run.steps[-1][0] - run.steps[0][0]
    kept = run.steps[-1][1] - run.steps[0][1]
    step = statistics.mean(plain)
    away = sum(after[0] - before[0] - step for before, after in starts)  # the time of a restart includes its first step
    again = sum(before[1] - after[1] + 1 for before, after in starts)
    print(f"{kills} kills in {wall:.0f} s, {kept} steps kept, {again} taken again, {away:.1f} s between a last step and the first one of "
          f"the next start; {run.saves} saves; a step takes {1000 * step:.2f} ms, with a save {1000 * sum(saving) / max(1, len(saving)):.2f} ms")
    print(f"useful time {100 * kept * step / wall:.1f} %; lost: steps taken again {100 * again * step / wall:.1f}, starts {100 * away / wall:.1f}, "
          f"saves {100 * (sum(saving) - len(saving) * step) / wall:.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--xrun", default="build/release/xrun")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--useful", type=float, metavar="MINUTES")
    parser.add_argument("--mean-gap", type=float, default=60, help="mean seconds between two failures")
    parser.add_argument("--model", help="for --useful; the small one where it is left out")
    parser.add_argument("--set", action="append", default=[], help="a setting of FILE, for --useful")
    args = parser.parse_args()
    chance = random.Random(args.seed)
    print(f"seed {args.seed}, {args.ranks} ranks")
    if args.useful:
        useful_time(args, chance)
        return
    for how in ("killed", "frozen"):
        rounds = [play(args, chance, f"{how}-{i}", how) for i in range(args.rounds)]
        for what in ("lost", "step"):
            times = sorted(one[what] for one in rounds)
            print(f"{how}, to the {'message' if what == 'lost' else 'first new step'}: median {statistics.median(times):.2f} s, "
                  f"95 % {times[min(len(times) - 1, int(0.95 * len(times)))]:.2f} s, largest {times[-1]:.2f} s")
        print(f"{how}: {sum(one['right'] for one in rounds)} of {len(rounds)} named the rank")


if __name__ == "__main__":
    main()
