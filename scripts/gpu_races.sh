#!/bin/bash
# Judges all schedules of the kernels of GPUs with the static prover sentryward, which it installs from PyPI
# (scripts/gpu_races.py). Takes at most half an hour on two cores; --update writes tests/golden/gpu/races.txt.
set -eu -o pipefail
cd "$(dirname "$0")/.."
test -x build/races-venv/bin/pip || python3 -m venv build/races-venv
build/races-venv/bin/pip install -q sentryward==0.1.1
exec scripts/gpu_races.py "$@"
