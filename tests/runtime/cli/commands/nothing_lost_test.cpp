// Files of the user are neither overwritten nor silently replaced.
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

class NothingLost : public ::testing::Test {
 protected:
  void SetUp() override { directory.write("tiny.xgraph", tiny_model()); }
  CommandResult run(const std::vector<std::string>& words, CommandOptions options = {}) {
    options.directory = directory.path();
    return run_xrun(words, options);
  }
  std::string at(const std::string& name) const { return directory.path() + "/" + name; }
  void train(const std::string& steps) {
    const auto result = run({"train", "tiny.xgraph", "--steps", steps, "--progress", "none"});
    ASSERT_EQ(result.exit, 0) << result.err;
  }
  TemporaryDirectory directory;
};

TEST_F(NothingLost, APlanIsWrittenOverPlansOnly) {
  const auto over_model = run({"plan", "tiny.xgraph", "-o", "tiny.xgraph"});
  EXPECT_EQ(over_model.exit, 2);
  EXPECT_THAT(over_model.err, HasSubstr("`tiny.xgraph` exists and is not a plan"));
  EXPECT_EQ(read_file(at("tiny.xgraph")), tiny_model());
  ASSERT_EQ(run({"plan", "tiny.xgraph", "-o", "a.xplan"}).exit, 0);
  EXPECT_EQ(run({"plan", "tiny.xgraph", "-o", "a.xplan"}).exit, 0) << "a plan may be made again";
  directory.write("empty.xplan", "");
  EXPECT_EQ(run({"plan", "tiny.xgraph", "-o", "empty.xplan"}).exit, 0);

  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  const auto pipe = run({"plan", "tiny.xgraph", "-o", "pipe"});
  EXPECT_EQ(pipe.exit, 2);
  EXPECT_THAT(pipe.err, HasSubstr("`pipe` is not a regular file"));
  EXPECT_TRUE(fs::is_fifo(at("pipe")));

  fs::create_symlink("a.xplan", at("link.xplan"));
  EXPECT_EQ(run({"plan", "tiny.xgraph", "--devices", "2", "-o", "link.xplan"}).exit, 0);
  EXPECT_TRUE(fs::is_symlink(at("link.xplan")));
  EXPECT_EQ(read_file(at("a.xplan")), read_file(at("link.xplan")));
}

TEST_F(NothingLost, EmbeddingsReplaceOnlyArraysAndAreComplete) {
  train("1");
  std::vector<std::string> words{"predict", "tiny.xgraph", "ckpt/quick", "--source", "test", "--embedding", "-o"};
  const auto into = [&](const std::string& file, CommandOptions options = {}) {
    auto all = words;
    all.push_back(file);
    return run(all, options);
  };
  EXPECT_EQ(into("tiny.xgraph").exit, 2);
  EXPECT_EQ(read_file(at("tiny.xgraph")), tiny_model());
  ASSERT_EQ(into("e.npy").exit, 0);
  const std::string whole = read_file(at("e.npy"));
  EXPECT_EQ(into("e.npy", {.file_size_limit = 1024}).exit, 4);
  EXPECT_EQ(read_file(at("e.npy")), whole) << "the old one stays";
}

TEST_F(NothingLost, AnUnreadableCheckpointIsNotReplacedByAnOlderOne) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to be another user";
  }
  train("2");
  train("4");
  const CommandOptions nobody{.uid = 65534};
  const auto can_be_entered = [&] {
    ::chmod(directory.path().c_str(), 0777);
    ::chmod(at("ckpt").c_str(), 0777);
    ::chmod(at("ckpt/quick").c_str(), 0777);
  };
  can_be_entered();
  ASSERT_EQ(run({"eval", "tiny.xgraph", "ckpt/quick/latest"}, nobody).exit, 0);
  ::chmod(at("ckpt/quick/step-000004").c_str(), 0);
  for (const std::string path : {"ckpt/quick/latest", "ckpt/quick", "ckpt/quick/step-000004"}) {
    const auto eval = run({"eval", "tiny.xgraph", path}, nobody);
    EXPECT_EQ(eval.exit, 4) << path << eval.out;
    EXPECT_THAT(eval.err, HasSubstr("cannot look into ckpt/quick/step-000004: Permission denied"));
  }
  const auto resumed = run({"train", "tiny.xgraph", "--steps", "6", "--progress", "none"}, nobody);
  EXPECT_EQ(resumed.exit, 4) << resumed.err;
  ::chmod(at("ckpt/quick/step-000004").c_str(), 0755);
  EXPECT_FALSE(fs::exists(at("ckpt/quick/step-000006")));
}

// In `xrun train --progress json | head -1`, the reader of the pipe ends during the run.
TEST_F(NothingLost, ARunIsSavedWhenTheReaderOfItsPipeEnds) {
  const std::string words = "cd " + directory.path() + " && " + XRUN_BINARY_DIR +
                            "/xrun train tiny.xgraph --set train.epochs=100000 --progress json 2>err | head -1 >first";
  ASSERT_EQ(WEXITSTATUS(std::system(words.c_str())), 0);
  EXPECT_THAT(read_file(at("first")), HasSubstr(R"("t":"plan")"));
  EXPECT_TRUE(fs::exists(at("ckpt/quick/latest")));
  EXPECT_THAT(read_file(at("err")), HasSubstr("cannot be written to stdout"));
}

TEST_F(NothingLost, PathsThatAreNotCheckpointsAreNamedByTheirKind) {
  fs::create_directories(at("empty"));
  EXPECT_THAT(run({"eval", "tiny.xgraph", "empty"}).err, HasSubstr("there is no step in this directory"));
  EXPECT_THAT(run({"eval", "tiny.xgraph", "tiny.xgraph"}).err, HasSubstr("it is a file"));
  EXPECT_THAT(run({"eval", "tiny.xgraph", "nowhere"}).err, HasSubstr("there is no such directory"));
}

TEST_F(NothingLost, ChangedDataOfARunIsReported) {
  const auto rows = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += std::to_string(i % 7) + "," + std::to_string(i % 5) + "," + std::to_string(i % 2) + "\n";
    }
    return text;
  };
  directory.write("m.xgraph", R"(xgraph 1
model m {
  input x: f32[N, 2]
  input label: index(2)[N]
  logits = x -> linear(2)
  output logits
}
data d {
  source train = csv("rows.csv")
  x     = columns(0..2)
  label = column(2) -> as_index(2)
}
train quick {
  batch     = 8
  norm_rows = 8
  steps     = 10
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = 0.1
}
)");
  directory.write("rows.csv", rows(64));
  const auto steps = [&](const std::string& count) {
    return run({"train", "m.xgraph", "--steps", count, "--progress", "plain"});
  };
  ASSERT_EQ(steps("2").exit, 0) << steps("2").err;
  EXPECT_THAT(steps("3").err, ::testing::Not(HasSubstr("XG0704")));
  directory.write("rows.csv", rows(120));
  EXPECT_THAT(steps("4").err, HasSubstr("step-000003 was trained on 64 samples, now there are 120"));
}

}  // namespace
}  // namespace xrun::testing
