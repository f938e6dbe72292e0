#!/usr/bin/env bash
# Prints the tests that the last run of ctest skipped, each with its reason.
#   scripts/skipped_tests.sh BUILD_DIRECTORY
set -euo pipefail
log="$1/Testing/Temporary/LastTest.log"
skipped=$(grep -A1 ': Skipped$' "$log" | grep -v -e ': Skipped$' -e '^--$' | sort | uniq -c || true)
if [ -n "$skipped" ]; then
  echo "skipped tests (number, reason):"
  echo "$skipped"
fi
