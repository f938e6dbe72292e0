"""Compares the training speeds of the glyph model in two stages under several schedules, which run in turn.

  compare_schedules.py XRUN [--rounds 5] [--model models/glyphs.xgraph]

Every round runs each schedule once, and the order alternates between rounds. The table gives the median of the images per
second after warm-up, the median of the ratios to GPipe in the same round, and the share of idle time.
"""

import argparse
import statistics

import compare_glyphs

BASE = ["--devices", "2", "--set", "schedule.replicas=1"]
PHASES = ["--set", "schedule.shard.character.granularity=step"]
PASSES = ["--set", "schedule.shard.character.granularity=micro_batch"]
SCHEDULES = {
    "gpipe": (2, "gpipe", []),
    "zb_v": (4, "zb_v", PASSES),
    "zero_bubble in phases": (2, "zero_bubble", PHASES),
    "interleaved in phases": (4, "interleaved", PHASES),
    "zb_v in phases": (4, "zb_v", PHASES),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("xrun")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default="models/glyphs.xgraph")
    args = parser.parse_args()

    run = argparse.Namespace(xrun=args.xrun, model=args.model, threads=2, steps=16, warmup=6, batch=256)
    print(f"{compare_glyphs.cpu_name()}, 2 devices of one thread, batch 256, {args.rounds} rounds\n")
    print("| schedule | precision | images/s | ratio | idle |")
    print("|---|---|---|---|---|")
    for precision in compare_glyphs.PRECISIONS:
        runs = {name: [] for name in SCHEDULES}
        for index in range(args.rounds):
            for name in list(SCHEDULES)[:: 1 if index % 2 == 0 else -1]:
                stages, pipeline, flags = SCHEDULES[name]
                words = ["--set", f"schedule.stages={stages}", "--set", f"schedule.pipeline={pipeline}"]
                runs[name].append(compare_glyphs.run_xrun(run, precision, BASE + words + flags))
        for name, results in runs.items():
            ratio = statistics.median(a["images_per_s"] / b["images_per_s"] for a, b in zip(results, runs["gpipe"]))
            speed = statistics.median(result["images_per_s"] for result in results)
            idle = statistics.median(result["bubble"] for result in results)
            print(f"| {name} | {precision} | {speed:.0f} | {ratio:.3f} | {100 * idle:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
