// docs/reference/benchmarks.md and its picture are made by scripts/benchmarks_page.py from tests/bench/results.jsonl.
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>

namespace {

TEST(Benchmarks, ThePageIsGeneratedFromTheResults) {
  if (std::system("python3 --version >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "there is no python3";
  }
  const std::string script = std::string(XRUN_SOURCE_DIR) + "/scripts/benchmarks_page.py";
  EXPECT_EQ(std::system(("python3 '" + script + "' --check").c_str()), 0)
      << "run python3 scripts/benchmarks_page.py, which writes the page and the picture";
}

}  // namespace
