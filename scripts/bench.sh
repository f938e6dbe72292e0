#!/usr/bin/env bash
# Measures kernels (Google Benchmark), compares measured step times with predicted ones, and then compares a head and
# training of the glyph model with PyTorch on the CPU. PyTorch is not a dependency: this script installs it once into
# build/torch-venv (about 5 GB). With XRUN_BENCH_TORCH=no these comparisons are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

for bench in build/release/xrun_*_bench; do
  [ -x "$bench" ] && "$bench" --benchmark_min_time=0.2
done

python3 tests/bench/predicted_times.py --rounds "${XRUN_BENCH_ROUNDS:-5}"

torch=()
if [ "${XRUN_BENCH_TORCH:-yes}" != no ]; then
  python=${XRUN_TORCH_PYTHON:-build/torch-venv/bin/python}
  if [ ! -x "$python" ]; then
    python3 -m venv build/torch-venv
    build/torch-venv/bin/pip install -q torch==2.13.0 numpy pillow
  fi
  torch=(--torch "$python")
fi
python3 tests/bench/compare_heads.py "${torch[@]}" --classes 20K --dims 128 --rounds "${XRUN_BENCH_ROUNDS:-5}"
python3 tests/bench/compare_glyphs.py "${torch[@]}" --rounds "${XRUN_BENCH_ROUNDS:-5}"
