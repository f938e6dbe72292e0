// Commands that work on the text of models: `xrun fmt`, `xrun fix`, `xrun explain` and `xrun new`.
#include <filesystem>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

const std::string kCanonical = "xgraph 1\n\nlet a = 1\n";
const std::string kOther = "xgraph 1\nlet a=1\n";

class FmtCommand : public ::testing::Test {
 protected:
  CommandResult run(std::vector<std::string> words) const {
    words.insert(words.begin(), "fmt");
    return run_xrun(words, {.directory = directory_.path()});
  }
  std::string text(const std::string& name) const { return read_file(directory_.path() + "/" + name); }

  TemporaryDirectory directory_;
};

TEST_F(FmtCommand, WritesOnlyChangedFilesAndKeepsTheirPermissions) {
  const std::string other = directory_.write("other.xgraph", kOther);
  const std::string same = directory_.write("same.xgraph", kCanonical);
  ASSERT_EQ(::chmod(other.c_str(), 0640), 0);
  const auto before = fs::last_write_time(same);
  const CommandResult result = run({"other.xgraph", "same.xgraph"});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.out, "  other.xgraph: changed line 2\n");
  EXPECT_EQ(text("other.xgraph"), kCanonical);
  EXPECT_EQ(fs::status(other).permissions(), fs::perms(0640));
  EXPECT_EQ(fs::last_write_time(same), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator()), 2);
}

TEST_F(FmtCommand, FollowsLinksToTheFile) {
  directory_.write("other.xgraph", kOther);
  fs::create_symlink("other.xgraph", directory_.path() + "/link.xgraph");
  EXPECT_EQ(run({"link.xgraph"}).exit, 0);
  EXPECT_TRUE(fs::is_symlink(directory_.path() + "/link.xgraph"));
  EXPECT_EQ(text("other.xgraph"), kCanonical);
}

TEST_F(FmtCommand, CheckWritesNothingAndExitsWithOneIfAFileWouldChange) {
  directory_.write("a/other.xgraph", kOther);
  directory_.write("a/b/same.xgraph", kCanonical);
  const CommandResult result = run({"--check", "a"});
  EXPECT_EQ(result.exit, 1);
  EXPECT_EQ(result.out, "  a/other.xgraph: would change line 2\n");
  EXPECT_EQ(text("a/other.xgraph"), kOther);
  EXPECT_EQ(run({"--check", "a/b"}).exit, 0);
  const json line = json::parse(run({"--check", "a", "--format", "json"}).out);
  EXPECT_EQ(line, json::parse(R"({"v":1,"file":"a/other.xgraph","written":false,"first_line":2,"last_line":2})"));
}

TEST_F(FmtCommand, TakesAllVisibleModelsOfADirectory) {
  directory_.write("a/one.xgraph", kOther);
  directory_.write("a/b/two.xgraph", kOther);
  directory_.write("a/.hidden/three.xgraph", kOther);
  directory_.write("a/four.txt", kOther);
  EXPECT_EQ(run({"a"}).out, "  a/b/two.xgraph: changed line 2\n  a/one.xgraph: changed line 2\n");
  EXPECT_EQ(text("a/.hidden/three.xgraph"), kOther);
  EXPECT_EQ(text("a/four.txt"), kOther);
}

TEST_F(FmtCommand, AFileThatDoesNotParseStaysAndTheOthersAreWritten) {
  directory_.write("broken.xgraph", "xgraph 1\nlet a=\n");
  directory_.write("other.xgraph", kOther);
  const CommandResult result = run({"broken.xgraph", "other.xgraph"});
  EXPECT_EQ(result.exit, 1);
  EXPECT_THAT(result.err, HasSubstr("error[XG0110]"));
  EXPECT_EQ(text("broken.xgraph"), "xgraph 1\nlet a=\n");
  EXPECT_EQ(text("other.xgraph"), kCanonical);
}

TEST_F(FmtCommand, MissingAndEmptyPathsAreNamed) {
  fs::create_directory(directory_.path() + "/empty");
  EXPECT_EQ(run({"nowhere.xgraph"}).exit, 1);
  EXPECT_THAT(run({"nowhere.xgraph"}).err, HasSubstr("there is no file `nowhere.xgraph`"));
  EXPECT_EQ(run({"empty"}).exit, 1);
  EXPECT_THAT(run({"empty"}).err, HasSubstr("`empty` holds no .xgraph file"));
}

TEST_F(FmtCommand, AFileThatMayNotBeWrittenIsASystemError) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to run as another user";
  }
  const std::string path = directory_.write("other.xgraph", kOther);
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0777), 0);
  const CommandResult result = run_xrun({"fmt", "other.xgraph"}, {.directory = directory_.path(), .uid = 65534});
  EXPECT_EQ(result.exit, 4) << result.err;
  EXPECT_THAT(result.err, HasSubstr("error[XG0124]: `other.xgraph` cannot be written: Permission denied"));
  EXPECT_EQ(text("other.xgraph"), kOther);
}

TEST_F(FmtCommand, NeedsFilesOrStdinButNotBoth) {
  EXPECT_EQ(run({}).exit, 2);
  EXPECT_EQ(run({"--stdin", "a.xgraph"}).exit, 2);
}

TEST_F(FmtCommand, FormatsStdinToStdout) {
  const auto fmt = [&](const std::string& text, const std::string& flags) {
    directory_.write("text", text);
    const std::string command = std::string(XRUN_BINARY_DIR) + "/xrun fmt " + flags + " < text";
    return run_xrun({"-c", command}, {.binary = "/bin/sh", .directory = directory_.path()});
  };
  const CommandResult written = fmt(kOther, "--stdin");
  EXPECT_EQ(written.exit, 0) << written.err;
  EXPECT_EQ(written.out, kCanonical);
  const CommandResult checked = fmt(kOther, "--stdin --check");
  EXPECT_EQ(checked.exit, 1);
  EXPECT_EQ(checked.out, "  <stdin>: would change line 2\n");
  const CommandResult broken = fmt("let", "--stdin");
  EXPECT_EQ(broken.exit, 1);
  EXPECT_THAT(broken.out, IsEmpty());
}

CommandResult explain(std::vector<std::string> words) {
  words.insert(words.begin(), "explain");
  return run_xrun(words);
}

TEST(ExplainCommand, ACodeHasAPageWithBothExamples) {
  const CommandResult result = explain({"XG0115"});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.out,
            "XG0115  comparisons and ranges do not chain\n\n"
            "`a < b < c` cannot compare three values. Compare twice and join the results with `and`. A range has\n"
            "exactly two ends: `a .. b`.\n"
            "\nGives XG0115:\n\n  xgraph 1\n\n  let a = 0 < 1 < 2\n"
            "\nCorrected:\n\n  xgraph 1\n\n  let a = 0 < 1 and 1 < 2\n");
  EXPECT_EQ(explain({"xg0115"}).out, result.out);
  EXPECT_EQ(explain({"0115"}).out, result.out);
}

TEST(ExplainCommand, AnOperatorHasItsSignatureDefaultsAndExample) {
  const CommandResult result = explain({"conv"});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("operator conv(x: [N, C, H, W], width: int, k: pair = 1, stride: pair = 1"));
  EXPECT_THAT(result.out, HasSubstr("  stride    pair          default 1\n"));
  EXPECT_THAT(result.out, HasSubstr("Example: conv(64, 3, stride=2)\n"));
  EXPECT_EQ(explain({"Conv2d"}).out, result.out);
}

TEST(ExplainCommand, DeclarationsOfTheLibraryAreShownAsWritten) {
  EXPECT_THAT(explain({"leaky_relu"}).out,
              HasSubstr("pointwise leaky_relu(x, slope = 0.01) = if x > 0 { x } else { slope * x }\n\n"
                        "Every file knows it without an import.\n"));
  EXPECT_THAT(explain({"lion"}).out, HasSubstr("state m = 0"));
  EXPECT_THAT(explain({"mbconv"}).out, HasSubstr("Import: from \"std/vision\" use mbconv\n"));
}

TEST(ExplainCommand, ASettingHasItsTypeDefaultAndInnerSettings) {
  EXPECT_EQ(explain({"train.lr"}).out,
            "setting train.lr = number, curve, list of curves\n\nThe learning rate.\nDefault: required.\n"
            "\nExample:\n  lr = cosine(0.1 .. 0)\n");
  EXPECT_EQ(explain({"lr"}).out, explain({"train.lr"}).out);
  EXPECT_THAT(explain({"train.checkpoint"}).out, HasSubstr("  keep "));
  EXPECT_THAT(explain({"schedule.shard.id.over"}).out, HasSubstr("setting schedule.shard.HEAD.over"));
  const std::string train = explain({"train"}).out;
  for (const char* key : {"  batch ", "  optimizer ", "  stop_when "}) {
    EXPECT_THAT(train, HasSubstr(key));
  }
}

TEST(ExplainCommand, AWordOfTwoMeaningsHasTwoPages) {
  const std::string out = explain({"steps"}).out;
  EXPECT_THAT(out, HasSubstr("curve steps("));
  EXPECT_THAT(out, HasSubstr("setting train.steps = int"));
}

TEST(ExplainCommand, AnUnknownTopicGetsTheNearestTopic) {
  const CommandResult result = explain({"linaer"});
  EXPECT_EQ(result.exit, 2);
  EXPECT_THAT(result.err, HasSubstr("there is nothing called `linaer` to explain"));
  EXPECT_THAT(result.err, HasSubstr("did you mean `linear`?"));
  EXPECT_EQ(explain({}).exit, 2);
  EXPECT_EQ(explain({"--unavailable"}).exit, 2);
}

TEST(ExplainCommand, TheListHasAllTopicsAndEachHasAPage) {
  const CommandResult list = explain({"--list", "--format", "json"});
  EXPECT_EQ(list.exit, 0) << list.err;
  std::vector<std::string> names;
  size_t unavailable = 0;
  std::istringstream lines(list.out);
  for (std::string line; std::getline(lines, line);) {
    const json row = json::parse(line);
    names.push_back(row["name"]);
    unavailable += row["available"] ? 0 : 1;
  }
  EXPECT_GT(names.size(), 300u);
  EXPECT_EQ(explain(names).exit, 0);
  const std::string missing = explain({"--list", "--unavailable", "--format", "json"}).out;
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(missing, '\n')), unavailable);
  // If stdout is not a terminal, the list has only names, for `xrun explain --list | xargs -n1 xrun explain`.
  std::istringstream plain(explain({"--list"}).out);
  std::vector<std::string> listed;
  for (std::string line; std::getline(plain, line);) {
    listed.push_back(line);
  }
  EXPECT_EQ(listed, names);
  const CommandResult wide = run_xrun({"explain", "--list", "--unavailable"}, {.environment = {{"COLUMNS", "100"}}});
  EXPECT_THAT(wide.out, HasSubstr("  cluster.node.link            what joins its GPUs\n"));
}

// Only the link between GPUs is unavailable.
TEST(ExplainCommand, OnlyTheListedFeaturesAreUnavailable) {
  EXPECT_EQ(explain({"--list", "--unavailable"}).out, "cluster.node.link\n");
}

class FixCommand : public ::testing::Test {
 protected:
  CommandResult run(std::vector<std::string> words) const {
    words.insert(words.begin(), "fix");
    return run_xrun(words, {.directory = directory_.path()});
  }
  // Returns the stages of a model of pictures after `fix`.
  std::string fixed(const std::string& stages) const {
    const std::string before = "xgraph 1\n\nmodel m {\n  input x: f32[N, 3, 32, 32]\n\n  y = x -> ";
    const std::string after = "\n  output y\n}\n";
    directory_.write("m.xgraph", before + stages + after);
    EXPECT_EQ(run({"m.xgraph"}).exit, 0);
    const std::string text = read_file(directory_.path() + "/m.xgraph");
    return text.substr(before.size(), text.size() - before.size() - after.size());
  }
  TemporaryDirectory directory_;
};

TEST_F(FixCommand, ModelsInTheStyleOfOtherFrameworksPassTheCheckAfterFix) {
  const fs::path cases = fs::path(XRUN_SOURCE_DIR) / "tests/golden/first_time";
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(cases)) {
    if (entry.path().extension() == ".xgraph") {
      names.push_back(entry.path().filename().string());
      directory_.write("cases/" + names.back(), read_file(entry.path().string()));
    }
  }
  const CommandResult first = run({"cases"});
  EXPECT_EQ(first.exit, 0) << first.err;
  int right = 0;
  for (const std::string& name : names) {
    const std::string path = directory_.path() + "/cases/" + name;
    const bool is_changed = read_file(path) != read_file((cases / name).string());
    EXPECT_EQ(first.out.find("cases/" + name + ":") != first.out.npos, is_changed) << name;
    right += is_changed && run_xrun({"check", path}).exit == 0 ? 1 : 0;
  }
  EXPECT_GE(right, 40);
  const CommandResult second = run({"cases"});
  EXPECT_EQ(second.exit, 0) << second.err;
  EXPECT_THAT(second.out, IsEmpty());
}

TEST_F(FixCommand, OverlappingEditsAreAppliedInTheNextRound) {
  EXPECT_EQ(fixed("Conv2d(64, kernel_size=3, bias=False)"), "conv(64, k=3, bias=false)");
}

TEST_F(FixCommand, AppliesOnlySafeEdits) {
  EXPECT_EQ(fixed("liner(10)"), "liner(10)");
  EXPECT_EQ(fixed("conv(64, 3, bias=True) -> rleu"), "conv(64, 3, bias=true) -> rleu");
  EXPECT_THAT(run({"m.xgraph"}).err, HasSubstr("m.xgraph: 1 error is left for you: xrun check m.xgraph"));
}

TEST_F(FixCommand, PrintsEachEdit) {
  directory_.write("m.xgraph", "let a = .5\nlet b = 2 Gbit/s\n");
  const CommandResult result = run({"m.xgraph"});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.out,
            "  m.xgraph:1:1: XG0112: write the edition first\n"
            "  m.xgraph:1:9: XG0105: write the zero\n"
            "  m.xgraph:2:11: XG0108: leave out the space\n");
  EXPECT_EQ(read_file(directory_.path() + "/m.xgraph"), "xgraph 1\n\nlet a = 0.5\nlet b = 2Gbit/s\n");
}

TEST_F(FixCommand, ChangesOnlyTheFilesThatAreNamed) {
  directory_.write("part.xgraph", "xgraph 1\n\nlet a = .5\n");
  directory_.write("m.xgraph", "xgraph 1\n\nimport \"part.xgraph\" as part\n\nlet b = .5\n");
  EXPECT_EQ(run({"m.xgraph"}).out, "  m.xgraph:5:9: XG0105: write the zero\n");
  EXPECT_EQ(read_file(directory_.path() + "/part.xgraph"), "xgraph 1\n\nlet a = .5\n");
}

TEST(ExplainCommand, ATensorIsExplainedByTheOperatorsThatGiveItsShape) {
  const std::string models = std::string(XRUN_SOURCE_DIR) + "/models/";
  const CommandResult digits = explain({models + "digits.xgraph:logits"});
  EXPECT_EQ(digits.exit, 0) << digits.err;
  EXPECT_THAT(digits.out, HasSubstr("logits: f32[N, 10]\n"));
  EXPECT_THAT(digits.out, HasSubstr("  x         f32[N, 64]  input\n"));
  EXPECT_THAT(digits.out, HasSubstr("linear(64), 4 160 parameters, " + models + "digits.xgraph:"));
  // A long path is shown by the parts of the model. An operator within a part has a path of its own.
  const CommandResult face = explain({models + "face.xgraph:feature"});
  EXPECT_THAT(face.out, HasSubstr("  backbone  f32[N, 2048]"));
  EXPECT_THAT(face.out, HasSubstr("statistics over groups of 64 samples (train.norm_rows)"));
  EXPECT_THAT(explain({models + "face.xgraph:backbone.layer1"}).out,
              HasSubstr("backbone.layer1: f32[N, 256, 28, 28]\n"));
  const CommandResult unknown = explain({models + "digits.xgraph:logit"});
  EXPECT_EQ(unknown.exit, 1);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean `logits`?"));
  EXPECT_EQ(explain({"nowhere.xgraph:x"}).exit, 1);
}

TEST(NewCommand, EachTemplatePassesTheCheckIsFormattedAndTrains) {
  const TemporaryDirectory directory;
  const auto run = [&](const std::vector<std::string>& words) {
    return run_xrun(words, {.directory = directory.path()});
  };
  for (const std::string name : {"mlp", "face", "vit", "sku"}) {
    const std::string file = "a/" + name + "/" + name + ".xgraph";
    const CommandResult made = run({"new", "a/" + name, "--template", name});
    EXPECT_EQ(made.exit, 0) << made.err;
    EXPECT_THAT(made.out, HasSubstr("wrote " + file));
    EXPECT_EQ(run({"fmt", "--check", file}).exit, 0) << name;
    const CommandResult trained = run({"train", file, "-C", "a/" + name, "--steps", "3"});
    EXPECT_EQ(trained.exit, 0) << trained.err;
    EXPECT_TRUE(fs::exists(directory.path() + "/a/" + name + "/ckpt")) << name;
    EXPECT_EQ(run({"new", "a/" + name}).exit, 2) << "the directory is there";
  }
  EXPECT_EQ(run({"new", "b", "--template", "none"}).exit, 2);
}

}  // namespace
}  // namespace xrun::testing
