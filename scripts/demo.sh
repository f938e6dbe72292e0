#!/usr/bin/env bash
# Trains the glyph classifier for two epochs on this machine's cores, evaluates it on an unseen font, classifies some
# characters of that font, and prints commands to try next. `make demo` calls this script after the build. If it was
# interrupted, it continues from the last checkpoint; if it had finished, it starts again.
set -euo pipefail
cd "$(dirname "$0")/.."

xrun=build/release/xrun
out=build/demo
devices=$(nproc)
[ "$devices" -ge 2 ] || devices=2
unfinished=$out/unfinished
say() { printf '\n== %s\n' "$*"; }
if [ -e "$unfinished" ]; then
  say "Continuing the interrupted demo (to start again, rm -r $out)"
else
  rm -rf "$out"
fi
mkdir -p "$out"
touch "$unfinished"

began=$SECONDS
flags=(--devices "$devices" --set train.epochs=2 --set schedule.stages=2 --set schedule.shard.character.over=2)

say "The plan: two pipeline stages, the head sharded over two devices"
$xrun plan models/glyphs.xgraph "${flags[@]}" -o "$out/glyphs.xplan"

say "Training 20,902 classes for two epochs (checkpoints and logs in $out)"
trained=$SECONDS
$xrun train "$out/glyphs.xplan" -C "$out"
trained=$((SECONDS - trained))

say "Accuracy on cwTeX-Yen, a font that training never saw"
$xrun eval models/glyphs.xgraph "$out/ckpt/cosine/latest" "${flags[@]}" --on yen

say "Eight characters of that font, as the model reads them"
$xrun predict models/glyphs.xgraph "$out/ckpt/cosine/latest" "${flags[@]}" --source yen --rows 2000..2008 --topk 3

rm "$unfinished"
say "Done: training took $((trained / 60)) min $((trained % 60)) s, the whole demo $(((SECONDS - began) / 60)) min $(((SECONDS - began) % 60)) s"
cat <<END
  plan        $xrun show $out/glyphs.xplan
  schedule    $xrun show $out/glyphs.xplan --gantt
  checkpoint  $xrun show $out/ckpt/cosine/latest
  go on       make glyphs          (all 8 epochs)
  your own    README.md, "A first model of your own"
END
