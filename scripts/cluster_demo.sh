#!/usr/bin/env bash
# Trains the glyph classifier on four hosts for one epoch, during which one host is killed and restarted. Then one
# process trains the same plan without a fault, and the script checks that the weights of both runs are equal. The hosts
# are network namespaces of this machine (scripts/hosts.sh) and share its cores. `make cluster-demo` calls this script;
# it needs root. If it was interrupted, it continues from the last checkpoint; if it had finished, it starts again.
set -euo pipefail
cd "$(dirname "$0")/.."

xrun=$PWD/build/release/xrun
out=build/cluster-demo
hosts=$PWD/scripts/hosts.sh
name=xrun-demo
flags=(--devices 4 --deterministic --set train.epochs=1 --set train.checkpoint.every="100 steps")
say() { printf '\n== %s\n' "$*"; }

unfinished=$out/unfinished
if [ -e "$unfinished" ]; then
  say "Continuing the interrupted demo (to start again, rm -r $out)"
else
  rm -rf "$out"
fi
mkdir -p "$out"
touch "$unfinished"
"$hosts" down $name
killer=
trap 'kill $killer 2>/dev/null || true; "$hosts" down $name' EXIT
"$hosts" up $name 4

say "The plan for four devices"
"$xrun" plan models/glyphs.xgraph "${flags[@]}" -o "$out/glyphs.xplan"

say "Four hosts train one epoch; the third one is killed after the second checkpoint, and is away for ten seconds"
(
  until [ -e "$out/four/ckpt/cosine/step-000200" ]; do sleep 0.2; done
  "$hosts" kill $name-2
  "$hosts" cut $name-2
  echo "-- $name-2 is killed"
  sleep 10
  "$hosts" mend $name-2
  echo "-- $name-2 is back"
) &
killer=$!
"$xrun" train --restarts 20 -- "$hosts" mpirun $name 4 "$xrun" train "$out/glyphs.xplan" -C "$out/four" 2>&1 | tee "$out/four.log"

say "One process trains the same plan without a fault"
"$xrun" train "$out/glyphs.xplan" -C "$out/one" 2>&1 | tee "$out/one.log"

say "Accuracy of both on cwTeX-Yen, a font that training never saw"
for run in four one; do
  "$xrun" eval models/glyphs.xgraph "$out/$run/ckpt/cosine/latest" "${flags[@]}" --on yen
done

weights() { grep -o 'weights=[0-9a-f]*' "$1" | grep -v 'weights=$' | tail -n 1; }
four=$(weights "$out/four.log")
one=$(weights "$out/one.log")
say "Four hosts: $four; one process: $one"
[ -n "$four" ] && [ "$four" = "$one" ] || { echo "The weights differ." >&2; exit 1; }
rm "$unfinished"
echo "The weights are the same, byte by byte."
