#!/usr/bin/env bash
# webdataset 1.0.2 (PyPI): its writer accepts keys with a dot, and its reader ends a key at the first dot of the file
# name. Samples whose keys agree before that dot come back as one sample, with fields such as "1.cls", and without a
# message. Numbers of frames, versions and file names with dots ("photo.edited") make such keys.
#
# Seen: two samples with the keys "photo.1" and "photo.2" are written, and one sample with the key "photo" is read.
#
# Exits with 0 if this is still so, and with 1 if the behaviour has changed. Needs python3-venv and the network.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check webdataset==1.0.2 numpy==2.2.6
cd "$work"
"$work/venv/bin/python" - <<'PY'
import sys

import webdataset

written = ["photo.1", "photo.2"]
with webdataset.TarWriter("samples.tar") as writer:
    for label, key in enumerate(written):
        writer.write({"__key__": key, "cls": label})
read = list(webdataset.WebDataset("samples.tar", shardshuffle=False).decode())
fields = [{name: value for name, value in sample.items() if name[0] != "_"} for sample in read]
print("webdataset", webdataset.__version__)
print("keys written:", written)
print("keys read:   ", [sample["__key__"] for sample in read], "with", fields)
as_seen = [sample["__key__"] for sample in read] == ["photo"] and fields == [{"1.cls": 0, "2.cls": 1}]
print("as seen before" if as_seen else "the behaviour has changed")
sys.exit(0 if as_seen else 1)
PY
