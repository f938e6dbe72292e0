// Measures the data path on one core: drawing of glyphs, and the augmentation of the glyph model.
#include <benchmark/benchmark.h>
#include <cstdlib>

#include "runtime/data/open_reader.h"
#include "runtime/data/readers/glyphs/fonts.h"
#include "tests/runtime/data/data_support.h"

namespace xrun::runtime {
namespace {

using namespace testing;

std::string some_font() {
  for (const char* name : {"uming", "wqy-zenhei", "ipag", "DejaVuSans"}) {
    if (find_font(name).ok()) {
      return name;
    }
  }
  return "";
}

void RenderGlyphs(benchmark::State& state) {
  const std::string font = some_font();
  if (font.empty()) {
    state.SkipWithError("no font");
    return;
  }
  setenv("XDG_CACHE_HOME", "/dev/null", 1);  // no cache, so that drawing is measured
  int64_t images = 0;
  for (auto _ : state) {
    images += open_reader(glyphs("a", {font}, 0x4E00, 0x5200)).value()->samples();
  }
  state.SetItemsProcessed(images);
}
BENCHMARK(RenderGlyphs)->UseRealTime();

// Measures rows per second through the first `stages` stages of the glyph model's binding.
void AugmentGlyphs(benchmark::State& state) {
  const std::string font = some_font();
  if (font.empty()) {
    state.SkipWithError("no font");
    return;
  }
  DataBinding binding = glyph_binding();
  binding.stages.resize(static_cast<size_t>(state.range(0)));
  const Graph graph = inputs({{"image", picture_type(1, 32, 32)}, {"label", label_type(20902)}});
  const DataSpec data{.name = "d", .sources = {glyphs("train", {font}, 0x4E00, 0x9FA6)}, .bindings = {binding}};
  const auto rows = SampleRows::open(data, "train", graph).value();
  Batch batch(graph, 512);
  AugmentScratch scratch;
  int64_t done = 0;
  for (auto _ : state) {
    const int64_t sample = done * 7919 % rows->samples();
    if (!rows->fill(sample, {1, 0, static_cast<uint64_t>(sample), true}, scratch, batch.view, done % 512).ok()) {
      state.SkipWithError("a row failed");
    }
    ++done;
  }
  state.SetItemsProcessed(done);
}
BENCHMARK(AugmentGlyphs)->DenseRange(1, 5);

}  // namespace
}  // namespace xrun::runtime
