// Golden files: a text made by a compilation step is compared with the file of the case, which is rewritten only on
// demand.
#pragma once

#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <vector>

namespace xrun::test {

// Whether `actual` is the content of tests/golden/<name>, "parse/face.ast"; a failure shows the lines that differ.
// With XRUN_UPDATE_GOLDENS=1 in the environment the file is written instead.
//   EXPECT_TRUE(matches_golden(print(ast), "parse/face.ast"));
::testing::AssertionResult matches_golden(std::string_view actual, const std::string& name);

// Names below tests/golden/<folder> that end in `ending`, sorted: golden_cases("parse", ".xgraph") gives
// "parse/face.xgraph", ... A folder without such a file fails the running test, since a loop over nothing proves
// nothing.
std::vector<std::string> golden_cases(const std::string& folder, const std::string& ending);

// The content of a file below the source tree ("tests/golden/parse/face.xgraph", "models/glyphs.xgraph"); a file that
// cannot be read fails the running test.
std::string read_source_file(const std::string& path);

// A line-by-line difference with three lines of context: "-" expected, "+" actual. Empty for equal texts.
std::string diff_lines(std::string_view expected, std::string_view actual);

}  // namespace xrun::test
