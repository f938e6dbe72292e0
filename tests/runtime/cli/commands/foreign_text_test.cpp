// Text from elsewhere (names of files, classes and environment variables, words of the command line, strings of plans
// and checkpoints) can neither control the terminal nor imitate a line of xrun.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/runtime/data/data_files.h"
#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// A sequence that colours the following text, one that moves the cursor, an 8-bit control character, a mark that
// reverses the direction of text, and a line that imitates an error.
const std::string kHostile =
    "a\x1b[31m\x1b[2J\r\xC2\x9B"
    "b\xE2\x80\xAE\nforged: all is well\n";

// Removes the sequences with which the progress bar moves up to redraw itself, as it does in long runs.
std::string without_redraws(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1b\\[[0-9]+A\x1b\\[J"), "");
}

void expect_harmless(const std::string& printed, const std::string& where) {
  const std::string text = without_redraws(printed);
  for (const char* piece : {"\x1b", "\r", "\xC2\x9B", "\xE2\x80\xAE"}) {
    EXPECT_EQ(text.find(piece), std::string::npos) << where << ":\n" << text;
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_FALSE(line.starts_with("forged")) << where << ":\n" << text;
  }
}

class ForeignText : public ::testing::Test {
 protected:
  CommandResult run(const Words& words, CommandOptions options = {}) {
    options.directory = directory.path();
    const CommandResult result = run_xrun(words, options);
    std::string where;
    for (const std::string& word : words) {
      where += word + " ";
    }
    expect_harmless(result.out, where + "(stdout)");
    expect_harmless(result.err, where + "(stderr)");
    return result;
  }
  TemporaryDirectory directory;
};

TEST_F(ForeignText, OnlyRedrawsOfTheBarAreRemovedFromTheOutput) {
  EXPECT_EQ(without_redraws("loss 1\n\x1b[3A\x1b[J  Saved\n\x1b[12A\x1b[Jend"), "loss 1\n  Saved\nend");
  EXPECT_EQ(without_redraws(kHostile), kHostile);
}

TEST_F(ForeignText, IsEscapedIfItComesFromTheCommandLine) {
  directory.write("tiny.xgraph", tiny_model());
  for (const Words& words : std::vector<Words>{{kHostile},
                                               {"plan", kHostile},
                                               {"check", kHostile},
                                               {"show", kHostile},
                                               {"plan", "tiny.xgraph", "--" + kHostile},
                                               {"plan", "tiny.xgraph", "--set", kHostile},
                                               {"plan", "tiny.xgraph", "--set", "train.lr=" + kHostile},
                                               {"plan", "tiny.xgraph", "--set", "train.lr=\"" + kHostile + "\""},
                                               {"plan", "tiny.xgraph", "--run", kHostile},
                                               {"plan", "tiny.xgraph", "--cluster", kHostile},
                                               {"plan", "tiny.xgraph", "--schedule", kHostile},
                                               {"plan", "tiny.xgraph", "--devices", kHostile},
                                               {"plan", "tiny.xgraph", "--threads", kHostile},
                                               {"plan", "tiny.xgraph", "--diff", kHostile},
                                               {"plan", "tiny.xgraph", "--why", kHostile},
                                               {"plan", "tiny.xgraph", "-o", kHostile + "/x.xplan"},
                                               {"show", "tiny.xgraph", "--table", kHostile},
                                               {"show", "tiny.xgraph", "--emit", kHostile},
                                               {"eval", "tiny.xgraph", kHostile},
                                               {"eval", "tiny.xgraph", kHostile, "--on", kHostile},
                                               {"predict", "tiny.xgraph", kHostile, kHostile},
                                               {"predict", "tiny.xgraph", kHostile, "--source", kHostile},
                                               {"train", "tiny.xgraph", "--progress", kHostile},
                                               {"train", "tiny.xgraph", "--format", kHostile},
                                               {"train", "tiny.xgraph", "--resume", kHostile}}) {
    EXPECT_NE(run(words).exit, 0) << words.back();
  }
}

TEST_F(ForeignText, IsEscapedIfItComesFromTheEnvironment) {
  directory.write("tiny.xgraph", tiny_model());
  for (const char* name : {"XRUN_RUN", "XRUN_CLUSTER", "XRUN_DEVICES", "XRUN_PROGRESS", "XRUN_SET"}) {
    run({"plan", "tiny.xgraph", "--dry-run"}, {.environment = {{name, kHostile}}});
  }
  run({"doctor"}, {.environment = {{"XDG_CACHE_HOME", directory.path() + "/" + kHostile}}});
  run({"doctor"}, {.environment = {{"LANG", kHostile}, {"TERM", kHostile}, {"OMP_NUM_THREADS", kHostile}}});
}

// The model, its directory of checkpoints and its plan have hostile names. Commands work and print the names
// harmlessly.
TEST_F(ForeignText, IsEscapedInNamesOfFiles) {
  const std::string model = kHostile + ".xgraph";
  directory.write(model, tiny_model());
  for (const char* mode : {"plain", "tty"}) {
    const std::string out = kHostile + mode;
    const auto trained = run({"train", model, "-C", out, "--steps", "3", "--progress", mode, "--color", "never"});
    EXPECT_EQ(trained.exit, 0) << trained.err;
  }
  const std::string checkpoint = kHostile + "plain/ckpt/quick";
  for (const Words& words :
       std::vector<Words>{{"check", model},
                          {"check", model, "--data"},
                          {"plan", model, "-o", kHostile + ".xplan"},
                          {"show", model},
                          {"show", kHostile + ".xplan"},
                          {"plan", model, "--diff", kHostile + ".xplan"},
                          {"show", checkpoint},
                          {"eval", model, checkpoint},
                          {"predict", model, checkpoint, "--source", "test", "--rows", "0..3"},
                          {"predict", model, checkpoint, "--source", "test", "--embedding", "-o", kHostile + ".npy"}}) {
    const auto result = run(words);
    EXPECT_EQ(result.exit, 0) << words[0] << ": " << result.err;
  }
  fs::remove(directory.path() + "/" + model);
  EXPECT_EQ(run({"train", kHostile + ".xplan"}).exit, 1) << "the plan's model is gone";
}

TEST_F(ForeignText, IsEscapedIfItComesFromTheModel) {
  // The hostile text is within a string, in a comment, outside of both, and in the name of a missing file.
  for (const std::string& text : std::vector<std::string>{
           "xgraph 1\n\"" + kHostile, "xgraph 1\n# " + kHostile, "xgraph 1\n" + kHostile,
           "xgraph 1\nfrom \"\\u{1B}[31m\\n.xgraph\" import x\n", "xgraph 1\nfrom \"" + kHostile + "\" import x\n",
           tiny_model() + "\nmodel \xC2\x9Bx {\n}\n"}) {
    directory.write("m.xgraph", text);
    EXPECT_EQ(run({"check", "m.xgraph"}).exit, 1);
    EXPECT_EQ(run({"plan", "m.xgraph"}).exit, 1);
    run({"show", "m.xgraph", "--emit", "tokens"});
    run({"show", "m.xgraph", "--emit", "ast"});
  }
}

// Replaces each string of a manifest in turn. It must be printed harmlessly or rejected.
TEST_F(ForeignText, IsEscapedOrRejectedIfItComesFromACheckpoint) {
  directory.write("tiny.xgraph", tiny_model());
  ASSERT_EQ(run({"train", "tiny.xgraph", "--steps", "2", "--progress", "none"}).exit, 0);
  const std::string latest = read_file(directory.path() + "/ckpt/quick/latest");
  const std::string path = directory.path() + "/ckpt/quick/" + latest.substr(0, latest.find('\n')) + "/manifest.json";
  const auto whole = nlohmann::json::parse(read_file(path));
  const auto fields = whole.flatten();
  int strings = 0;
  for (const auto& [pointer, value] : fields.items()) {
    if (!value.is_string()) {
      continue;
    }
    ++strings;
    nlohmann::json changed = whole;
    changed[nlohmann::json::json_pointer(pointer)] = kHostile;
    std::ofstream(path, std::ios::trunc) << changed.dump();
    for (const Words& words : std::vector<Words>{
             {"show", "ckpt/quick"}, {"eval", "tiny.xgraph", "ckpt/quick"}, {"train", "tiny.xgraph", "--steps", "2"}}) {
      run(words);
    }
  }
  EXPECT_GT(strings, 10);
}

TEST_F(ForeignText, IsEscapedInNamesOfClassesAndPictures) {
  for (const char* name : {"one", "two"}) {
    const fs::path file = fs::path(directory.path()) / "pictures" / (name + kHostile) / (kHostile + ".png");
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << runtime::testing::png(4, 100);
    std::ofstream(file.parent_path() / (kHostile + "broken.png"), std::ios::binary) << "not a picture";
  }
  directory.write("m.xgraph", R"(xgraph 1
model m {
  input x: f32[N, 1, 4, 4]
  input kind: index(2)[N]
  logits = x -> flatten -> linear(2)
  output logits
}
data d {
  source train = folder(["pictures"])
  x       = file -> decode(4, channels=1) -> scale(1 / 255)
  kind    = label -> as_index(2)
  max_bad = 100%
}
train t {
  batch     = 2
  norm_rows = 1
  epochs    = 2
  loss      = softmax_ce(logits, kind)
  optimizer = sgd
  lr        = 0.1
}
)");
  for (const char* mode : {"plain", "tty"}) {
    run({"train", "m.xgraph", "--progress", mode, "-C", mode, "--color", "never"});
  }
  run({"check", "m.xgraph", "--data"});
  for (const std::string& name : {kHostile + ".png", kHostile + "broken.png", kHostile + "none.png"}) {
    run({"predict", "m.xgraph", "plain/ckpt/t", "pictures/one" + kHostile + "/" + name});
  }
}

}  // namespace
}  // namespace xrun::testing
