// The data of the models that xrun provides, from the text to rows of the inputs.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lang/frontend.h"
#include "ops/op.h"
#include "runtime/data/readers/glyphs/fonts.h"
#include "tests/runtime/data/data_support.h"

namespace xrun::runtime {
namespace {

using namespace testing;

Module load_model(const std::string& name, const std::string& root) {
  SourceMap sources;
  Diagnostics diagnostics;
  lang::FrontendOptions options{.ops = &ops::registry()};
  if (!root.empty()) {
    options.sets.emplace_back("root", "\"" + root + "\"");
  }
  auto file = lang::load(std::string(XRUN_SOURCE_DIR) + "/models/" + name + ".xgraph", sources, diagnostics, options);
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    ADD_FAILURE() << render(diagnostic, sources);
  }
  return file ? std::move(file->module) : Module();
}

Module load_model(const std::string& name) { return load_model(name, shared_data(name).string()); }

// Fills some rows of a source, checks their labels, and returns the smallest and the largest value of the first input.
std::pair<float, float> range_of(const Module& module, const std::string& source, int64_t samples, int64_t classes) {
  const auto rows = SampleRows::open(module.data, source, module.graph);
  EXPECT_TRUE(rows.ok()) << rows.error().message;
  if (!rows.ok()) {
    return {0, 0};
  }
  EXPECT_EQ((*rows)->samples(), samples);
  EXPECT_EQ((*rows)->reader().classes(), classes);
  Batch batch(module.graph, 1);
  AugmentScratch scratch;
  float low = 0, high = 0;
  const auto values = static_cast<int64_t>(batch.memory[0].size() / sizeof(float));
  for (int64_t i = 0; i < samples; i += samples / 50) {
    for (const bool training : {false, true}) {
      const Status done = (*rows)->fill(i, {1, 2, static_cast<uint64_t>(i), training}, scratch, batch.view, 0);
      EXPECT_TRUE(done.ok()) << done.error().message;
      const auto [least, most] = std::minmax_element(batch.floats(0), batch.floats(0) + values);
      low = std::min(low, *least);
      high = std::max(high, *most);
      EXPECT_GT(*most - *least, 0.2f) << "nothing to see in sample " << i;
      EXPECT_LT(batch.integers(1)[0], classes);
      EXPECT_GE(batch.integers(1)[0], 0);
    }
  }
  return {low, high};
}

TEST(ShippedData, OmniglotRowsHaveTheirRange) {
  if (shared_data("omniglot").empty()) {
    GTEST_SKIP() << "the shared data omniglot is not here";
  }
  const Module module = load_model("omniglot");
  const auto [low, high] = range_of(module, "train", 24'345, 1'623);
  EXPECT_NEAR(low, -1, 1e-4);
  EXPECT_NEAR(high, 0, 1e-4) << "paper is 0, so that what moves in from outside is paper";
  range_of(module, "test", 8'115, 1'623);
}

TEST(ShippedData, MnistRowsHaveTheirRange) {
  if (shared_data("mnist").empty()) {
    GTEST_SKIP() << "the shared data mnist is not here";
  }
  const Module module = load_model("mnist");
  const auto [low, high] = range_of(module, "train", 60'000, 10);
  EXPECT_EQ(low, 0);
  EXPECT_NEAR(high, 1, 1e-4);
}

TEST(ShippedData, LemmaRowsAreThoseOfTheSplit) {
  const std::string forms = shared_data("unimorph-lemma").string();
  if (forms.empty()) {
    GTEST_SKIP() << "the shared data unimorph-lemma is not here";
  }
  const std::string out = ::testing::TempDir() + "xrun_lemma_" + std::to_string(getpid());
  const std::string script = std::string(XRUN_SOURCE_DIR) + "/scripts/lemma.py";
  ASSERT_EQ(std::system(("python3 '" + script + "' '" + forms + "' '" + out + "'").c_str()), 0);
  const Module module = load_model("lemma", out);
  const auto train = SampleRows::open(module.data, "train", module.graph);
  const auto test = SampleRows::open(module.data, "test", module.graph);
  std::filesystem::remove_all(out);
  ASSERT_TRUE(train.ok()) << train.error().message;
  ASSERT_TRUE(test.ok()) << test.error().message;
  EXPECT_EQ((*train)->samples(), 69'682);
  EXPECT_EQ((*train)->reader().classes(), 22'765);
  EXPECT_EQ((*test)->samples(), 22'751);
  const Status matched = (*test)->number_by((*train)->classes());
  EXPECT_TRUE(matched.ok()) << matched.error().message;
  Batch batch(module.graph, 1);
  AugmentScratch scratch;
  for (int64_t i = 0; i < (*test)->samples(); i += 500) {
    const Status done = (*test)->fill(i, {}, scratch, batch.view, 0);
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_GT(batch.integers(0)[0], 0) << "each form has an n-gram";
    EXPECT_LT(batch.integers(1)[0], 22'765);
  }
}

TEST(ShippedData, GlyphRowsHaveTheirRange) {
  for (const char* font : {"cwyen", "unifont"}) {
    if (!find_font(font).ok()) {
      GTEST_SKIP() << "the font " << font << " is not installed";
    }
  }
  const Module module = load_model("glyphs");
  range_of(module, "yen", 13'068, 20'902);
  range_of(module, "unifont", 20'902, 20'902);
}

}  // namespace
}  // namespace xrun::runtime
