// Files of tests/golden/check: each fail_* has its rendered diagnostics in a file next to it; the others have their
// module as text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/print.h"
#include "lang/frontend.h"
#include "tests/lang/test_ops.h"
#include "tests/support/golden.h"

namespace xrun::lang {
namespace {

std::string stem(const std::string& name) { return name.substr(0, name.rfind('.')); }

TEST(CheckGolden, FaultsAreShownAsTheLanguageDescribesThem) {
  const OpRegistry ops = test_ops::registry();
  for (const std::string& name : test::golden_cases("check", ".xgraph")) {
    if (name.find("/fail_") == std::string::npos) {
      continue;
    }
    SourceMap sources;
    Diagnostics diagnostics;
    const std::string file = name.substr(name.rfind('/') + 1);
    const auto checked =
        check_text(file, test::read_source_file("tests/golden/" + name), sources, diagnostics, {.ops = &ops});
    EXPECT_FALSE(checked.has_value()) << name;
    EXPECT_TRUE(diagnostics.has_errors()) << name;
    std::string text;
    for (const Diagnostic& diagnostic : diagnostics.all()) {
      EXPECT_FALSE(diagnostic.fixes.empty() || diagnostic.fixes[0].title.empty()) << name << ": " << diagnostic.message;
      text += (text.empty() ? "" : "\n") + render(diagnostic, sources);
    }
    EXPECT_TRUE(test::matches_golden(text, stem(name) + ".txt"));
  }
}

}  // namespace
}  // namespace xrun::lang
