#!/usr/bin/env bash
# voyager 2.2.3 (PyPI): the storage type E4M3 is not the E4M3 of the OCP 8-bit formats for small numbers. Below 2^-6 that
# format has the multiples of 2^-9 (0.001953125); voyager stores multiples of 2^-10 up to 7 * 2^-10 instead. Eight
# numbers of the format (0.0078125, 0.009765625, 0.01171875, 0.013671875 and their negatives) are stored as 0.0068359375
# or 0.015625, so nothing between these two can be stored.
#
# A component of a unit vector of 512 numbers is about 0.044, so such numbers are common in embeddings.
# Seen: of the 253 finite numbers of the format, these 8 come back changed; ml_dtypes keeps all of them.
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs python3-venv and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check voyager==2.2.3 numpy==2.2.6 ml_dtypes==0.6.0
"$work/venv/bin/python" - <<'PY'
import importlib.metadata
import sys

import ml_dtypes
import numpy as np
import voyager


def stored(number):
    index = voyager.Index(
        voyager.Space.Euclidean, num_dimensions=1, storage_data_type=voyager.StorageDataType.E4M3
    )
    return float(index.get_vector(index.add_item([number]))[0])


codes = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
numbers = sorted({float(x) for x in codes if np.isfinite(x)})
changed = {number: stored(number) for number in numbers if stored(number) != number}
print(f"voyager {importlib.metadata.version('voyager')}: {len(changed)} of {len(numbers)} numbers of E4M3 are changed")
for number, other in changed.items():
    print(f"  {number:+.9f} is stored as {other:+.10f}")
positive = {0.0078125: 0.0068359375, 0.009765625: 0.0068359375, 0.01171875: 0.015625, 0.013671875: 0.015625}
as_seen = changed == {**positive, **{-number: -other for number, other in positive.items()}}
print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
