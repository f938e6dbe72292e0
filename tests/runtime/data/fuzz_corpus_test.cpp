// Runs the seeds and findings of the fuzz target of `check`: the front end ends and can print its diagnostics.
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/settings/reader_def.h"
#include "lang/explain.h"
#include "lang/lower/curves.h"
#include "ops/op.h"
#include "tests/fuzz/check_input.h"
#include "tests/support/golden.h"

namespace xrun {
namespace {

TEST(FuzzCorpus, EveryInputIsCheckedAndItsFaultsAreShown) {
  const std::filesystem::path tree = XRUN_SOURCE_DIR;
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(tree / "tests/fuzz/corpus/check")) {
    const std::string path = std::filesystem::relative(entry.path(), tree).string();
    EXPECT_EQ(lang::fault_of_check(path, test::read_source_file(path), ops::registry()), "") << path;
    ++seen;
  }
  EXPECT_GE(seen, 10);
}

// The fuzzer would never call an operator if it had to guess the name letter by letter.
TEST(FuzzCorpus, TheDictionaryHasEveryNameThatAModelCanCall) {
  const std::string words = test::read_source_file("tests/fuzz/xgraph.dict");
  const auto has = [&](std::string_view name) { EXPECT_THAT(words, ::testing::HasSubstr('"' + std::string(name))); };
  for (const OpDef* op : ops::registry().all()) {
    if (op->is_word()) {
      has(op->name);
    }
  }
  for (const ReaderDef* reader : data_registry().readers) {
    has(reader->name);
  }
  for (const AugmentDef* stage : data_registry().augments) {
    has(stage->name);
  }
  for (const lang::Topic& topic : lang::all_topics(ops::registry())) {
    if (topic.kind == "optimizer") {
      has(topic.name);
    }
  }
  for (const lang::CurveKind& curve : lang::curve_kinds()) {
    has(curve.name);
  }
}

}  // namespace
}  // namespace xrun
