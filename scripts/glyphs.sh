#!/usr/bin/env bash
# The main job: eight epochs of the glyph classifier, then both unseen fonts. Called by `make glyphs`; run again after an
# interruption, it goes on from the last checkpoint.
set -euo pipefail
cd "$(dirname "$0")/.."

xrun=build/release/xrun
out=build/glyphs
mkdir -p "$out"

$xrun plan models/glyphs.xgraph -o "$out/glyphs.xplan"
began=$SECONDS
$xrun train "$out/glyphs.xplan" -C "$out"
echo "trained in $(((SECONDS - began) / 60)) min $(((SECONDS - began) % 60)) s"
$xrun eval models/glyphs.xgraph "$out/ckpt/cosine/latest"
