"""Reads the event files of a run with TensorBoard's own reader and compares them with the run's log.

  tensorboard_test.py DIRECTORY

Exits with 77 where the package tensorboard is not installed.
"""

import json
import os
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    sys.exit(77)

directory = sys.argv[1]
events = EventAccumulator(directory)
events.Reload()
log = []
for event in map(json.loads, open(os.path.join(directory, "log.jsonl"))):
    # If a part of a run begins at an earlier step, it replaces the steps that were logged after that step.
    if event["t"] == "start":
        log = [before for before in log if before.get("step", 0) <= event["first_step"]]
    log.append(event)
for tag, kind, value in [
    ("train/loss", "step", lambda event: event["loss"]),
    ("train/lr", "step", lambda event: event["lr"]),
    ("train/samples_per_s", "step", lambda event: event["images_per_s"]),
    ("train/accuracy", "step", lambda event: event["accuracy"]),
    ("eval/test", "eval", lambda event: event["metrics"]["test"]),
]:
    expected = [(event["step"], value(event)) for event in log if event["t"] == kind]
    found = [(scalar.step, scalar.value) for scalar in events.Scalars(tag)]
    assert len(expected) > 0 and len(found) == len(expected), (tag, found, expected)
    for (step, number), (wanted_step, wanted) in zip(found, expected):
        assert step == wanted_step and abs(number - wanted) <= 1e-6 * max(1, abs(wanted)), (tag, found, expected)
