#!/usr/bin/env python3
"""Writes docs/reference/benchmarks.md and its picture from the figures in tests/bench/results.jsonl.

Each line of results.jsonl is one figure. A new measurement replaces the line of the old one. `target` is a condition on
the fields of the line, such as "ratio >= 2.8" or "value >= reference - 0.3"; this script evaluates it. With --check nothing
is written, and the exit code is 1 if the page or the picture is out of date.
"""
import argparse
import html
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tests/bench/results.jsonl"
PAGE = ROOT / "docs/reference/benchmarks.md"
PICTURE = ROOT / "docs/reference/benchmarks.svg"

FIELDS = ("id", "question", "case", "value", "unit", "low", "high", "reference", "reference_value",
          "ratio", "target", "machine", "commit", "command", "note")
NUMBERS = ("value", "low", "high", "reference_value", "ratio")
MAX_LINES = 120
MAX_ROWS = 5  # most rows of a table: the first figures of a question; the others are only in results.jsonl

# The heading for each value of the field `question`, in the order of the page.
QUESTIONS = {
    "head": "How fast is the classifier head?",
    "training": "How fast does a model train?",
    "memory": "How much memory does a run need?",
    "accuracy": "How accurate are the models?",
    "hosts": "How well do ranks and hosts work together?",
    "functions": "How fast are functions and optimizers written in the language?",
    "tools": "How good are predictions, and how fast are the tools?",
}

# The headline figures: id of the figure, text in the page, title of the panel in the picture.
HEADLINES = (
    ("head-1m-128-f32",
     "**Speed of the head.** A step of a head of 1,000,000 classes × 128 in f32 takes {value}, and {reference} "
     "takes {reference_value}: xrun is **{ratio} times as fast**.",
     "Head of 1M classes × 128, f32: time of a step (less is better)"),
    ("memory-head-1m-128-f32",
     "**Memory of the head.** The process of this head peaks at {value}, that of {reference} at {reference_value}: "
     "xrun needs **{ratio}** of the memory.",
     "The same head: peak of memory (less is better)"),
    ("glyphs-f32-one-device",
     "**Speed of training.** The glyph model with 20,902 classes trains in f32 at {value}, with {reference} at "
     "{reference_value}: xrun is **{ratio} times as fast**.",
     "Glyph model, f32: speed of training (more is better)"),
    ("accuracy-sku",
     "**Accuracy.** A million synthetic classes, trained on two cores for 49.3 minutes, reach **{value}**. "
     "{reference}, the best possible classifier of this data, reaches {reference_value}.",
     "1M classes, two cores, 49.3 min: accuracy (more is better)"),
)

MACHINES = {
    "A": "Intel Xeon, 2 cores, 24 GiB, AVX-512 and AVX512-BF16 without AMX. VDPBF16PS runs at half the rate of f32 FMA "
         "there, so xrun picks AVX-512 and computes bf16 operands in f32; PyTorch is slower in bf16 than in f32 for the "
         "same reason",
    "B": "AMD EPYC (Zen 4), 2 cores, 24 GiB, AVX-512, AVX512-BF16 and VNNI, no AMX",
    "C": "AMD EPYC, 2 cores, 24 GiB, AVX2 alone: no AVX-512, no units for bf16",
    "D": "Intel Xeon with AMX (2 MiB of second-level cache a core), 2 cores, 24 GiB. Its cores also serve other machines: "
         "for seconds at a time all loops run at 0.7 of their rate, and those of AMX at 0.3",
}

INTRO = """\
Machines are shared and noisy, so ratios are more reliable than times. A comparison interleaves both sides, for at least
five rounds after warm-up. A figure is the median, with the smallest and largest round in brackets. `scripts/benchmarks_page.py` makes this page from
`tests/bench/results.jsonl`, which has all {count} figures with machine, commit, command and notes."""

FIGURES = """\
The ratio of a speed or a time says how many times as fast as the reference xrun is. Other ratios are
xrun's value divided by the reference, such as the predicted value. Letters are machines.

The glyph model is `models/glyphs.xgraph`: 20,902 real classes, 284,045 pictures of 16 faces, 1.02 M parameters in the
trunk and 5.35 M in the head. PyTorch runs the same model on the CPU with batch 256, two threads, channels-last, a full
softmax head, the fused AdamW, the margin taken from one logit a row, augmentation on the training threads, and autocast
for bf16; a round has 16 steps. Heads have f32 class weights in both precisions. Peaks of memory are VmHWM."""

REPRODUCE = """\
Each figure has its command in `tests/bench/results.jsonl`. `make bench` runs the comparisons with PyTorch, and `make
glyphs` trains the glyph model. To record a figure, replace its line and its commit and run
`python3 scripts/benchmarks_page.py`. A commit in brackets recorded a figure measured shortly before it. Shares of the
roofline recorded before 7103fcf leave out exponentials."""


def load():
    """Reads and checks the figures, and returns them in the order of the file."""
    figures = []
    for number, line in enumerate(RESULTS.read_text().splitlines(), 1):
        figure = json.loads(line)
        where = f"{RESULTS.name}:{number}"
        if tuple(figure) != FIELDS:
            sys.exit(f"{where}: the fields are not {', '.join(FIELDS)}")
        if figure["question"] not in QUESTIONS:
            sys.exit(f"{where}: unknown question {figure['question']}")
        for field in NUMBERS:
            if not isinstance(figure[field], (int, float, type(None))):
                sys.exit(f"{where}: {field} is not a number")
        is_missed(figure)
        figures.append(figure)
    if len({figure["id"] for figure in figures}) != len(figures):
        sys.exit(f"{RESULTS.name}: an id occurs twice")
    return figures


def conditions(figure):
    """Returns (field, sign, bound) for each condition of the target."""
    found = []
    for text in (figure["target"] or "").split(" and ") if figure["target"] else []:
        match = re.fullmatch(r"(value|ratio|low|high) (>=|<=) (?:(reference) - )?(-?[\d.]+)", text)
        if match is None or figure[match[1]] is None:
            sys.exit(f"{figure['id']}: the target \"{text}\" cannot be evaluated")
        bound = float(match[4])
        found.append((match[1], match[2], figure["reference_value"] - bound if match[3] else bound))
    return found


def is_missed(figure):
    return any(figure[field] < bound if sign == ">=" else figure[field] > bound
               for field, sign, bound in conditions(figure))


def plain(number):
    """Formats a number: 1625 as "1,625", 0.333 as "0.333"."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.10g}"


def quantity(number, unit):
    if number is None:
        return ""
    if unit == "s" and number >= 120:
        return f"{int(number // 60)} min" + (f" {number % 60:g} s" if number % 60 else "")
    sign = "+" if unit == "points" and number > 0 else ""
    return sign + plain(number) + (f" {unit}" if unit else "")


def measured(figure):
    value, unit, low, high = (figure[field] for field in ("value", "unit", "low", "high"))
    if value is None:
        return f"{plain(low)} to {quantity(high, unit)}" if low is not None else ""
    if low is None:
        return quantity(value, unit)
    return f"{quantity(value, unit)} ({plain(low)} to {plain(high)})" if high is not None \
        else f"{quantity(value, unit)} (least {plain(low)})"


def goal(figure):
    """Returns the target in words, such as "ratio at least 2.8"."""
    found = conditions(figure)
    if not found:
        return ""
    what = "ratio " if found[0][0] == "ratio" else ""
    unit = None if what else figure["unit"]
    bounds = [int(bound) if float(bound).is_integer() else round(bound, 6) for _, _, bound in found]
    if len(found) == 2:
        return f"{what}{plain(bounds[0])} to {quantity(bounds[1], unit)}"
    return f"{what}{'at least' if found[0][1] == '>=' else 'at most'} {quantity(bounds[0], unit)}"


def machine(figure):
    letters = figure["machine"] or ""
    return f" ({letters[0]})" if letters[:1] in MACHINES and letters[1:2] in ("", ",") else ""


def row(figure):
    reference = figure["reference"] or ""
    if figure["reference_value"] is not None:
        reference += f", {quantity(figure['reference_value'], figure['unit'])}"
    target = goal(figure)
    if target:
        reference += ("; " if reference else "") + f"target {target}" + (" **(missed)**" if is_missed(figure) else "")
    ratio = "" if figure["ratio"] is None else plain(figure["ratio"])
    return f"| {figure['case']}{machine(figure)} | {measured(figure)} | {reference} | {ratio} |"


def wrapped(text, width=100, first="", rest=""):
    """Breaks each paragraph of a text into lines of at most `width` characters."""
    lines = []
    for number, paragraph in enumerate(text.split("\n\n")):
        paragraph = " ".join(paragraph.split())
        lines += [""] if number else []
        line = first
        empty = True
        for word in re.findall(r"(?:`[^`]*`|\*\*[^*]*\*\*|[^\s`*])+", paragraph):
            if not empty and len(line) + 1 + len(word) > width:
                lines.append(line)
                line, empty = rest, True
            line += word if empty else f" {word}"
            empty = False
        lines.append(line)
    return lines


def page(figures):
    by_id = {figure["id"]: figure for figure in figures}
    lines = ["# Benchmarks", ""] + wrapped(INTRO.format(count=len(figures))) + [""]
    lines += ["![The headline figures as bars](benchmarks.svg)", ""]
    for name, text, _ in HEADLINES:
        figure = by_id[name]
        reference = figure["reference"]
        words = {"value": quantity(figure["value"], figure["unit"]),
                 "reference": reference[0].upper() + reference[1:],
                 "reference_value": quantity(figure["reference_value"], figure["unit"]),
                 "ratio": plain(figure["ratio"])}
        lines += wrapped(text.format(**words), first="- ", rest="  ")
    lines += ["", "## Machines", "", "| machine | description |", "|---|---|"]
    lines += [f"| {letter} | {text} |" for letter, text in MACHINES.items()]
    lines += ["", "## Figures", ""] + wrapped(FIGURES) + [""]
    for question, heading in QUESTIONS.items():
        lines += [f"### {heading}", "| case | xrun | reference | ratio |", "|---|---|---|---|"]
        lines += [row(figure) for figure in figures if figure["question"] == question][:MAX_ROWS]
        lines += [""]
    lines += ["## How to reproduce a figure", ""] + wrapped(REPRODUCE) + [""]
    lines += ["## Targets that were missed", "", "| question | case: measured, target |", "|---|---|"]
    for question, heading in QUESTIONS.items():
        missed = [figure for figure in figures if figure["question"] == question and is_missed(figure)]
        items = []
        for figure in missed:
            by_ratio = figure["target"].startswith("ratio")
            value = f"ratio {plain(figure['ratio'])}" if by_ratio else measured(figure)
            items.append(f"{figure['case']}{machine(figure)}: {value}, target {goal(figure)}")
        if items:
            lines.append(f"| {heading} | {'<br>'.join(items)} |")
    return "\n".join(lines) + "\n"


def picture(figures):
    """Draws two bars for each headline figure, xrun and its reference; returns the SVG text."""
    by_id = {figure["id"]: figure for figure in figures}
    width, height, left, longest = 760, 76, 190, 400
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height * len(HEADLINES) + 12}" '
           'font-family="sans-serif" font-size="13" role="img" aria-label="Headline figures of xrun">',
           f'<rect width="{width}" height="{height * len(HEADLINES) + 12}" fill="#ffffff"/>']
    for number, (name, _, title) in enumerate(HEADLINES):
        figure = by_id[name]
        top = height * number + 22
        most = max(figure["value"], figure["reference_value"])
        out.append(f'<text x="12" y="{top}" font-weight="bold" fill="#222222">{html.escape(title)}</text>')
        bars = (("xrun", figure["value"], "#2563a8"), (figure["reference"], figure["reference_value"], "#a0a0a0"))
        for place, (label, value, colour) in enumerate(bars):
            y = top + 10 + 20 * place
            length = longest * value / most
            out.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end" fill="#222222">{html.escape(label)}</text>')
            out.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="15" fill="{colour}"/>')
            out.append(f'<text x="{left + length + 6:.1f}" y="{y + 12}" fill="#222222">'
                       f'{html.escape(quantity(value, figure["unit"]))}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file would change")
    check = parser.parse_args().check
    figures = load()
    texts = {PAGE: page(figures), PICTURE: picture(figures)}
    if texts[PAGE].count("\n") > MAX_LINES:
        sys.exit(f"the page has {texts[PAGE].count(chr(10))} lines, and at most {MAX_LINES} are allowed")
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is not what tests/bench/results.jsonl gives: run "
                  "python3 scripts/benchmarks_page.py")
        else:
            path.write_text(texts[path])
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
