#!/bin/bash
# Checks the kernels and the backend of GPUs on the GPU of this machine, in about four minutes: operators against the PTX
# machine, digits against processors, and one digest for all plans (tests/cuda/card_test.cpp). Prints a line for each
# check. Exits with 1 if a check fails, and with 77 if there is no GPU.
#   BUILD   the build with xrun and xrun_cuda_test; default: build/release
set -eu -o pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
if ! [ -x "$build/xrun_cuda_test" ] || ! [ -x "$build/xrun" ]; then
  echo "$build has no xrun_cuda_test: run \`make build\` first" >&2
  exit 1
fi
if ! "$build/xrun" doctor | grep -q 'compute capability'; then
  echo "not run: xrun doctor finds no GPU" >&2
  "$build/xrun" doctor | grep -i -A2 gpu >&2 || true
  exit 77
fi
"$build/xrun" doctor | grep 'compute capability'
failed=0
for check in OperatorsHaveTheBitsOfThePtxMachine DigitsHasTheLossesOfProcessors PlansHaveOneDigest; do
  started=$SECONDS
  log=$(mktemp)
  if "$build/xrun_cuda_test" --gtest_filter="Card.$check" >"$log" 2>&1; then
    echo "passed: $check ($((SECONDS - started)) s)"
  else
    echo "FAILED: $check ($((SECONDS - started)) s)"
    grep -v '^\[' "$log" | head -40
    failed=1
  fi
  rm -f "$log"
done
exit $failed
