// ROC curves as JSON and as a picture.
#include "runtime/cli/predict/roc_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace xrun::cli {
namespace {

using ::testing::HasSubstr;
using testing::read_file;
using ::testing::StartsWith;
using testing::TemporaryDirectory;

std::vector<runtime::VerifiedPairs> two_curves() {
  std::vector<runtime::VerifiedPairs> all{{.key = "lfw", .pairs = 2000, .different = 1000, .accuracy = 0.995},
                                          {.key = "a<b>&\n", .pairs = 20, .different = 10, .accuracy = 0.5}};
  for (int i = 0; i < 400; ++i) {
    const double share = i / 399.0;
    all[0].roc.push_back({i * 0.01, share * share * share, share});
    all[1].roc.push_back({i * 0.01, share, share});
  }
  return all;
}

TEST(RocFile, JsonHasThePointsOfEachCurve) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/roc.json";
  for (int time = 0; time < 2; ++time) {  // the second time replaces the file
    ASSERT_TRUE(check_roc_path(path).ok());
    ASSERT_TRUE(write_roc(path, two_curves()).ok());
  }
  const auto json = nlohmann::json::parse(read_file(path));
  EXPECT_EQ(json["v"], 1);
  ASSERT_EQ(json["roc"].size(), 2U);
  const auto& lfw = json["roc"]["lfw"];
  EXPECT_EQ(lfw["pairs"], 2000);
  EXPECT_EQ(lfw["thresholds"].size(), 400U);
  EXPECT_EQ(lfw["far"].size(), 400U);
  EXPECT_EQ(lfw["tar"][399], 1.0);
  EXPECT_EQ(lfw["thresholds"][200], 2.0);
}

TEST(RocFile, ThePictureHasACurveAndANameForEach) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/roc.svg";
  ASSERT_TRUE(write_roc(path, two_curves()).ok());
  const std::string svg = read_file(path);
  EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, HasSubstr(">lfw 99.50 %</text>"));
  EXPECT_THAT(svg, HasSubstr(">a&lt;b&gt;&amp;"));
  EXPECT_THAT(svg, HasSubstr(">1e-3</text>")) << "the axis begins at the FAR of one pair of the larger set";
  EXPECT_THAT(svg, HasSubstr("540.0,20.0\"/>")) << "curves end at a FAR and a TAR of 1";
  size_t curves = 0;
  for (size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) {
    ++curves;
  }
  EXPECT_EQ(curves, 2U);
}

TEST(RocFile, ADirectoryThatDoesNotExistIsRejectedBeforeTheEvaluation) {
  const TemporaryDirectory directory;
  directory.write("file", "no directory");
  for (const std::string parent : {"/plots", "/file"}) {
    const Status refused = check_roc_path(directory.path() + parent + "/roc.svg");
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, "XG0901");
    EXPECT_THAT(refused.error().message, HasSubstr("there is no directory `" + directory.path() + parent + "`"));
    EXPECT_THAT(refused.error().help, HasSubstr("--roc"));
  }
  EXPECT_TRUE(check_roc_path("no-such-file.svg").ok()) << "the working directory exists";
}

TEST(RocFile, OtherEndingsAndFilesAreRejected) {
  const TemporaryDirectory directory;
  directory.write("data.json", "{\"mine\": 1}");
  EXPECT_TRUE(check_roc_path("").ok());
  EXPECT_EQ(check_roc_path(directory.path() + "/roc.png").error().code, "XG0906");
  EXPECT_EQ(check_roc_path(directory.path() + "/data.json").error().code, "XG0901");
  EXPECT_EQ(write_roc(directory.path() + "/data.json", two_curves()).error().code, "XG0901");
  EXPECT_EQ(read_file(directory.path() + "/data.json"), "{\"mine\": 1}");
}

}  // namespace
}  // namespace xrun::cli
