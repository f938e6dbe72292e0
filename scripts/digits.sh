#!/usr/bin/env bash
# Fetches models/digits.csv, the data of models/digits.xgraph: the 1,797 test digits of "Optical Recognition of
# Handwritten Digits" (E. Alpaydin, C. Kaynak, UCI 1998), which scikit-learn contains. The package python3-sklearn
# (2 MB) is unpacked below build/ instead of installed, so that root is not needed.
set -euo pipefail
cd "$(dirname "$0")/.."

out=models/digits.csv
mkdir -p build/digits
if ! (cd build/digits && rm -f ./*.deb && apt-get download -qq python3-sklearn && dpkg -x ./*.deb .); then
  echo "digits: the Debian package python3-sklearn cannot be fetched: check the network, and run apt-get update" >&2
  exit 4
fi
zcat build/digits/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz >build/digits/digits.csv
if ! awk -F, 'NF != 65 { exit 1 } END { exit NR != 1797 }' build/digits/digits.csv; then
  echo "digits: the table in python3-sklearn does not have 1,797 lines of 65 numbers" >&2
  exit 1
fi
mv build/digits/digits.csv "$out"
echo "digits: wrote $out; next: build/release/xrun train models/digits.xgraph"
