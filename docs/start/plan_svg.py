#!/usr/bin/env python3
"""Draws a plan as docs/start/plan.svg: the schedule of one step, and the memory of each device.

  xrun plan models/glyphs.xgraph --devices 2 --set schedule.stages=2 -o glyphs.xplan
  python3 docs/start/plan_svg.py build/release/xrun glyphs.xplan > docs/start/plan.svg
"""
import json
import subprocess
import sys
from html import escape

WIDTH, LEFT, RIGHT = 960, 96, 28
ROW, GAP = 44, 12
COLOURS = {"forward": "#4c78a8", "head": "#e08214", "backward": "#3b7f35", "input gradient": "#3b7f35",
           "weight gradient": "#9aa936", "update": "#6b6b6b"}
INK = {"forward": "#ffffff", "head": "#222222", "backward": "#ffffff", "input gradient": "#ffffff",
       "weight gradient": "#222222", "update": "#ffffff"}
KINDS = {"head-forward": "head", "head-backward": "head", "reduce-statistics": "head", "reduce-dx": "head"}
PARTS = {
    "class weights with optimizer states": "#e08214", "head passes": "#f6c48d", "activations": "#4c78a8",
    "weights": "#3b7f35", "optimizer states": "#9ccb97", "prepared weights": "#b9b0d3", "results": "#6b6b6b",
}


def show(xrun, plan, *flags):
    words = [xrun, "show", plan, "--format", "json", *flags]
    return json.loads(subprocess.run(words, check=True, capture_output=True).stdout)


def text(x, y, words, size=13, anchor="start", colour="#222222", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" '
            f'font-weight="{weight}">{escape(words)}</text>')


def box(x, y, width, height, colour, title):
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.8):.1f}" height="{height:.1f}" fill="{colour}" '
            f'stroke="#ffffff" stroke-width="0.6"><title>{escape(title)}</title></rect>')


def legend(y, entries):
    out, x = [], LEFT
    for name, colour in entries:
        out += [box(x, y - 10, 12, 12, colour, name), text(x + 17, y, name, 12)]
        x += 17 + 6.6 * len(name) + 20
    return out


def axis(top, bottom, end, step, scale, unit):
    out, at = [], 0
    while at <= end:
        x = LEFT + at * scale
        out.append(f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" stroke="#dddddd"/>')
        out.append(text(x, bottom + 15, f"{at} {unit}" if at else "0", 11, "middle", "#555555"))
        at += step
    return out


def main():
    xrun, path = sys.argv[1:]
    plan, gantt = show(xrun, path), show(xrun, path, "--gantt")
    predicted, settings = plan["predicted"], plan["settings"]
    step_ms = predicted["step_seconds"] * 1e3
    scale = (WIDTH - LEFT - RIGHT) / step_ms
    stages = len(plan["stages"])

    out = [text(16, 28, f'{plan["model"]} on {plan["cluster"]["name"]}: {stages} stages, {settings["micro_batches"]} '
                f'micro-batches of {settings["batch"] // settings["micro_batches"]} samples, one step of {step_ms:.1f} ms', 16,
                weight="bold")]
    out.append(text(16, 49, f'predicted: {predicted["images_per_second"]:,.0f} samples/s; waits of the busiest device '
                    f'{100 * predicted["bubble"]:.1f} %, imbalance {100 * predicted["imbalance"]:.1f} % of the step', 13, colour="#555555"))

    top = 66
    bottom = top + stages * (ROW + GAP)
    out += axis(top, bottom, step_ms, 20, scale, "ms")
    for stage in plan["stages"]:
        y = top + 6 + stage["index"] * (ROW + GAP)
        out.append(text(16, y + 19, f'stage {stage["index"]}', 13, weight="bold"))
        out.append(text(16, y + 35, f'cpu {stage["devices"][0]}', 12, colour="#555555"))
    kinds = set()
    for one in gantt["instructions"]:
        if one["stream"] != "compute":
            continue
        kind = KINDS.get(one["what"], one.get("part", one["what"]))
        kinds.add(kind)
        begin, end = one["begin"] * 1e3, one["end"] * 1e3
        x, width = LEFT + begin * scale, (end - begin) * scale
        y = top + 6 + one["device"] * (ROW + GAP)
        name = one.get("part", one["what"]) + (f' of micro-batch {one["micro_batch"]}' if "micro_batch" in one else "")
        out.append(box(x, y, width, ROW, COLOURS[kind], f"{name}: {begin:.1f} to {end:.1f} ms"))
        if width > 24:
            lines = [f'{kind[0].upper()}{one["micro_batch"]}'] if "micro_batch" in one else one["what"].split("-")
            for i, line in enumerate(lines):
                at = y + ROW / 2 + 5 + 15 * (i - (len(lines) - 1) / 2)
                out.append(text(x + width / 2, at, line, 13, "middle", INK[kind]))
    names = {"forward": "F: forward", "head": "head, in two shards",
             "backward": "B: backward", "input gradient": "I: gradients of inputs",
             "weight gradient": "W: gradients of weights", "update": "update"}
    out += legend(bottom + 42, [(names[kind], colour) for kind, colour in COLOURS.items() if kind in kinds])

    top = bottom + 86
    out.append(text(16, top - 12, "Memory of each device when it needs most", 14, weight="bold"))
    devices = [arena for arena in plan["memory"] if arena["device"] != "host"]
    most = max(arena["arena"] for arena in devices) / 2**20
    scale = (WIDTH - LEFT - RIGHT - 70) / most
    bottom = top + len(devices) * (ROW * 0.7 + GAP)
    out += axis(top, bottom, most, 20, scale, "MiB")
    for arena in devices:
        y = top + 6 + arena["device"] * (ROW * 0.7 + GAP)
        out.append(text(16, y + 20, f'cpu {arena["device"]}', 13, weight="bold"))
        x = LEFT
        for name, colour in PARTS.items():
            size = arena["parts"].get(name, 0) / 2**20
            if size:
                out.append(box(x, y, size * scale, ROW * 0.7, colour, f"{name}: {size:.1f} MiB"))
                if size * scale > 60:
                    ink = "#ffffff" if name in ("activations", "weights") else "#222222"
                    out.append(text(x + size * scale / 2, y + 20, f"{size:.1f}", 12, "middle", ink))
                x += size * scale
        out.append(text(x + 8, y + 20, f'{arena["arena"] / 2**20:.1f} MiB', 13))
    out += legend(bottom + 42, [(name, PARTS[name]) for name in list(PARTS)[:3]])
    out += legend(bottom + 62, [(name, PARTS[name]) for name in list(PARTS)[3:6]])
    height = bottom + 78
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" '
          f'font-family="Helvetica, Arial, sans-serif" role="img">')
    print(f'<title>Plan of {escape(plan["model"])}: schedule of a step and memory</title>')
    print(f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>')
    print("\n".join(out))
    print("</svg>")


main()
