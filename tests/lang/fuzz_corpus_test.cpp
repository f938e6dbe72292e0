// The seeds and findings of the fuzz target: the front end ends and can say what it saw.
#include <filesystem>
#include <gtest/gtest.h>

#include "tests/fuzz/check_input.h"
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
    EXPECT_EQ(fault_of_check(path, test::read_source_file(path), ops), "") << path;
    ++seen;
  }
  EXPECT_GE(seen, 10);
}

}  // namespace
}  // namespace xrun::lang
