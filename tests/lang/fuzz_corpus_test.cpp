// The seeds and findings of the fuzz targets, run by the ordinary test binary: the front end ends and can say what it
// saw.
#include <filesystem>
#include <gtest/gtest.h>

#include "lang/frontend.h"
#include "tests/lang/test_ops.h"
#include "tests/support/golden.h"

namespace xrun::lang {
namespace {

TEST(FuzzCorpus, EveryInputIsCheckedAndItsFaultsAreShown) {
  const OpRegistry ops = test_ops::registry();
  const std::filesystem::path tree = XRUN_SOURCE_DIR;
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(tree / "tests/fuzz/corpus/check")) {
    const std::string path = std::filesystem::relative(entry.path(), tree).string();
    SourceMap sources;
    Diagnostics diagnostics;
    const FrontendOptions options{.ops = &ops, .max_nodes = 2'000, .max_steps = 50'000};
    const auto checked = check_text(path, test::read_source_file(path), sources, diagnostics, options);
    EXPECT_NE(checked.has_value(), diagnostics.has_errors()) << path;
    for (const Diagnostic& diagnostic : diagnostics.all()) {
      EXPECT_FALSE(render(diagnostic, sources).empty()) << path;
    }
    ++seen;
  }
  EXPECT_GE(seen, 10);
}

}  // namespace
}  // namespace xrun::lang
