// Golden files: a text made by a compilation step is compared with the file of the case, which is rewritten only on
// demand.
#pragma once

#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <vector>

namespace xrun::test {

// Returns whether `actual` is the content of the file tests/golden/<name>; a failure shows the lines that differ. With
// XRUN_UPDATE_GOLDENS=1 in the environment, the file is written instead.
//   EXPECT_TRUE(matches_golden(print(ast), "parse/face.ast"));
::testing::AssertionResult matches_golden(std::string_view actual, const std::string& name);

// Returns the sorted names below tests/golden/<folder> that end in `ending`: golden_cases("parse", ".xgraph") gives
// "parse/face.xgraph", ... If there is no such file, the running test fails, since a loop over no files would test
// nothing.
std::vector<std::string> golden_cases(const std::string& folder, const std::string& ending);

// Returns the content of a file of the source tree ("tests/golden/parse/face.xgraph", "models/glyphs.xgraph"). If the
// file cannot be read, the running test fails.
std::string read_source_file(const std::string& path);

// Returns the difference by lines, with three lines of context: "-" expected, "+" actual. Empty for equal texts.
std::string diff_lines(std::string_view expected, std::string_view actual);

}  // namespace xrun::test
