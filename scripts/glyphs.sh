#!/usr/bin/env bash
# Trains the glyph classifier for eight epochs, then evaluates it on both unseen fonts. `make glyphs` calls this script.
# If it was interrupted, it continues from the last checkpoint.
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
