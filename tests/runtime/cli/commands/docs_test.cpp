// Every ```xgraph block of the documentation is a complete file that passes the check with the real operators, like the
// models.
#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lang/format/format.h"
#include "lang/frontend.h"
#include "ops/op.h"
#include "tests/support/golden.h"

namespace xrun {
namespace {

namespace fs = std::filesystem;

struct Block {
  std::string where;  // "docs/reference/language.md:12"
  std::string text;
};

std::vector<std::string> documents() {
  const fs::path tree = XRUN_SOURCE_DIR;
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(tree / "docs")) {
    if (entry.path().extension() == ".md") {
      paths.push_back(fs::relative(entry.path(), tree).string());
    }
  }
  if (fs::exists(tree / "README.md")) {
    paths.emplace_back("README.md");
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<Block> blocks_of(const std::string& path) {
  constexpr std::string_view kOpen = "```xgraph\n";
  const std::string text = test::read_source_file(path);
  std::vector<Block> blocks;
  for (size_t at = text.find(kOpen); at != std::string::npos; at = text.find(kOpen, at)) {
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
    at += kOpen.size();
    const size_t end = text.find("\n```", at);
    EXPECT_NE(end, std::string::npos) << path << ":" << line << " is not closed";
    blocks.push_back({path + ":" + std::to_string(line), text.substr(at, end + 1 - at)});
    at = std::min(end, text.size());
  }
  return blocks;
}

TEST(Docs, EveryXgraphBlockHasNoDiagnosticsAndPassesItsTests) {
  int seen = 0;
  int expectations = 0;
  for (const std::string& path : documents()) {
    for (const Block& block : blocks_of(path)) {
      SCOPED_TRACE("in the block at " + block.where);
      SourceMap sources;
      Diagnostics diagnostics;
      const auto file = lang::check_text(block.where, block.text, sources, diagnostics, {.ops = &ops::registry()});
      std::string faults;
      for (const Diagnostic& diagnostic : diagnostics.all()) {
        faults += render(diagnostic, sources);
      }
      EXPECT_EQ(faults, "");
      ASSERT_TRUE(file.has_value());
      for (const lang::TestResult& test : file->tests) {
        EXPECT_TRUE(test.passed) << test.name;
        expectations += test.expectations;
      }
      ++seen;
    }
  }
  EXPECT_GE(seen, 9);
  EXPECT_GE(expectations, 5);
}

TEST(Docs, EveryXgraphBlockIsInCanonicalLayout) {
  for (const std::string& path : documents()) {
    for (const Block& block : blocks_of(path)) {
      SourceMap sources;
      Diagnostics diagnostics;
      const auto out = lang::format(block.where, block.text, sources, diagnostics);
      ASSERT_TRUE(out.has_value()) << block.where;
      EXPECT_EQ(test::diff_lines(*out, block.text), "") << block.where;
    }
  }
}

}  // namespace
}  // namespace xrun
