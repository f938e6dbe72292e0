// `xrun check --format sarif` prints one document for all files.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/support/command.h"
#include "tests/support/golden.h"

namespace xrun {
namespace {

using testing::CommandResult;
using testing::run_xrun;
using testing::TemporaryDirectory;

CommandResult check(const TemporaryDirectory& directory, std::vector<std::string> words) {
  words.insert(words.begin(), "check");
  words.insert(words.end(), {"--format", "sarif"});
  return run_xrun(words, {.directory = directory.path()});
}

TEST(Sarif, HasRulesResultsRelatedPlacesAndFixes) {
  TemporaryDirectory directory;
  directory.write("two words.xgraph", "xgraph 1\n\nlet a = 1\nlet a = 2\n");
  directory.write("layers.xgraph",
                  "xgraph 1\n\nblock b(x: [N, D]) {\n  y = x -> ReLU\n  return x -> linear(\u4e2d)\n}\n\n"
                  "model m {\n  input x: f32[N, 8]\n\n  y = x -> b\n  output y\n}\n");
  directory.write("good.xgraph", "xgraph 1\n\nlet a = 1\n");
  const CommandResult result = check(directory, {"two words.xgraph", "layers.xgraph", "good.xgraph"});
  EXPECT_EQ(result.exit, 1);
  EXPECT_EQ(result.err, "");
  const std::string text =
      std::regex_replace(result.out, std::regex("\"semanticVersion\": \"[^\"]*\""), "\"semanticVersion\": \"0\"");
  EXPECT_TRUE(test::matches_golden(text, "sarif/two_files.sarif"));
}

TEST(Sarif, HasNoResultsForFilesWithoutFaults) {
  TemporaryDirectory directory;
  directory.write("good.xgraph", "xgraph 1\n\nlet a = 1\n");
  const CommandResult result = check(directory, {"good.xgraph"});
  EXPECT_EQ(result.exit, 0);
  const auto log = nlohmann::json::parse(result.out);
  EXPECT_EQ(log["version"], "2.1.0");
  EXPECT_EQ(log["runs"][0]["results"], nlohmann::json::array());
}

TEST(Sarif, ReportsUnreadableFilesAndIsOnlyForCheck) {
  TemporaryDirectory directory;
  const CommandResult result = check(directory, {"absent.xgraph"});
  EXPECT_NE(result.exit, 0);
  EXPECT_EQ(nlohmann::json::parse(result.out)["runs"][0]["results"].size(), 1u);
  const CommandResult other = run_xrun({"doctor", "--format", "sarif"});
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.err, ::testing::HasSubstr("only `xrun check` prints SARIF"));
}

}  // namespace
}  // namespace xrun
