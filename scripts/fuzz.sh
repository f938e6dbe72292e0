#!/usr/bin/env bash
# Runs fuzz targets of build/fuzz, one process for each and JOBS at a time, and prints how often each was executed.
# `make fuzz` builds them and calls this script with
#   FUZZ_RUNS     executions of each target
#   FUZZ_TARGETS  names of targets, such as "onnx text"; empty: all
#   JOBS          number of processes
# Exits with 1 if a target found an input that fails. Such inputs, logs and corpora are in build/fuzz.
#
# libFuzzer's entropic schedule and AddressSanitizer's stacks of allocations and large quarantine are off, since they
# would take longer than the readers themselves; run an input that fails again with them.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

# seeds TARGET: the files and folders of the tree from which a target starts.
seeds() {
  local data=tests/runtime/data/files weights=tests/runtime/interchange/weights/files
  case $1 in
    check | format | parse) echo tests/fuzz/corpus/check tests/golden/parse ;;
    layer_times | profile) echo tests/runtime/cli/profiles ;;
    lists) echo $data/plsc $data/recordio ;;
    names) echo runtime/interchange/names/tables ;;
    npy | npz) echo $data/npy ;;
    onnx | pickle_weights | safe_weights | shards | torch_zip) echo $weights ;;
    pair_list | templates) echo $data/pairs ;;
    pickle) echo $data/pairs $data/pickles ;;
    picture) echo tests/pictures ;;
    plan) echo tests/fuzz/corpus/plan ;;
    ptx) echo tests/golden/ptx ;;
    records) echo $data/recordio ;;
    sparse) echo $data/sparse ;;
    tar | xidx) echo $data/webdataset ;;
    csv | text) echo $data/plsc $data/sparse ;;
    *) ;;
  esac
}

# run TARGET: one line of the summary, and exit code 1 if an input fails.
run() {
  local target=$1 folder=$root/build/fuzz/$1 options=(-entropic=0 -reload=0 -print_final_stats=1 -timeout=60)
  local start=$SECONDS code=0 count
  case $target in
    check | format | parse) options+=(-max_len=4096 -dict="$root/tests/fuzz/xgraph.dict") ;;
    csv | lists | text) options+=(-max_len=1024) ;;
    picture) options+=(-max_len=16384) ;;
    *) options+=(-max_len=8192) ;;
  esac
  mkdir -p "$folder/corpus"
  local folders=()
  for seed in $(seeds "$target"); do folders+=("$root/$seed"); done
  (cd "$folder" && ASAN_OPTIONS=malloc_context_size=0:quarantine_size_mb=4:thread_local_quarantine_size_kb=64 \
    "../xrun_${target}_fuzz" "${options[@]}" -runs="$FUZZ_RUNS" corpus "${folders[@]}" >log 2>&1) || code=$?
  count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/log")
  if [ "$code" -ne 0 ]; then
    echo "fuzz: $target found an input that fails after ${count:-0} executions: see build/fuzz/$target/log"
    return 1
  fi
  echo "fuzz: $target: $count executions in $((SECONDS - start)) s"
}

if [ "${1:-}" = run ]; then
  run "$2"
  exit
fi
export FUZZ_RUNS=${FUZZ_RUNS:-100000}
targets=${FUZZ_TARGETS:-$(cd build/fuzz && ls xrun_*_fuzz | sed 's/^xrun_//; s/_fuzz$//')}
for target in $targets; do
  if [ ! -x "build/fuzz/xrun_${target}_fuzz" ]; then
    echo "fuzz: no fuzz target is called \"$target\"; targets are the files tests/fuzz/TARGET_fuzz.cpp" >&2
    exit 1
  fi
done
# xargs exits with 123 if a command failed.
printf '%s\n' $targets | xargs -P "${JOBS:-$(nproc)}" -I{} "$0" run {} || exit 1
