// A launcher starts these commands several times. They must print one answer or one message in total.
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/support/hosts/launchers.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

const std::string kXrun = std::string(XRUN_BINARY_DIR) + "/xrun";

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

class LaunchedCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = launcher_.missing(); !missing.empty()) {
      GTEST_SKIP() << missing << ": commands of several processes are not tested";
    }
    at_.write("tiny.xgraph", tiny_model());
  }
  CommandOptions here() const { return {.directory = at_.path()}; }
  CommandResult alone(const Words& words) const { return run_xrun(words, here()); }
  CommandResult ranks(int count, Words words) const {
    words.insert(words.begin(), kXrun);
    return launcher_.run(count, words, here());
  }
  // Runs `first` on rank 0 and `second` on rank 1, with the environment variable "NAME=VALUE" if one is given.
  CommandResult pair(const Words& first, const Words& second, const std::string& variable = "") const {
    Words all{kXrun};
    all.insert(all.end(), first.begin(), first.end());
    all.insert(all.end(), {":", "-n", "1"});
    if (!variable.empty()) {
      all.insert(all.end(), {"-x", variable});
    }
    all.push_back(kXrun);
    all.insert(all.end(), second.begin(), second.end());
    return launcher_.run(1, all, here());
  }

  Launcher launcher_ = open_mpi();
  TemporaryDirectory at_;
};

TEST_F(LaunchedCommands, PrintOneAnswerInTotal) {
  ASSERT_EQ(alone({"train", "tiny.xgraph", "--steps", "2", "--progress", "none"}).exit, 0);
  const std::string checkpoint = "ckpt";
  std::string run;
  for (const auto& entry : std::filesystem::directory_iterator(at_.path() + "/ckpt")) {
    run = "ckpt/" + entry.path().filename().native();
  }
  for (const Words& words :
       {Words{"eval", run}, Words{"show", run}, Words{"show", "tiny.xgraph", "--table", "layers"},
        Words{"predict", run, "--source", "test", "--rows", "0..2", "--topk", "1"}, Words{"check", "tiny.xgraph"}}) {
    const auto one = alone(words);
    const auto three = ranks(3, words);
    EXPECT_EQ(three.exit, one.exit) << words[0] << three.err;
    EXPECT_EQ(three.out, one.out) << words[0];
    EXPECT_EQ(count(three.err, "works in one process, so of the 3 that were started only rank 0 runs it"), 1)
        << three.err;
  }
}

TEST_F(LaunchedCommands, ReportAFailureOnce) {
  const auto failed = ranks(3, {"eval", "nothing"});
  EXPECT_EQ(failed.exit, 2) << failed.err;
  EXPECT_EQ(count(failed.err, "needs a checkpoint"), 1) << failed.err;
  const auto absent = ranks(2, {"show", "absent.xgraph"});
  EXPECT_EQ(absent.exit, alone({"show", "absent.xgraph"}).exit);
  EXPECT_EQ(count(absent.err, "error["), 1) << absent.err;
}

TEST_F(LaunchedCommands, DoTheirOwnWorkIfTheirArgumentsDiffer) {
  const auto both = pair({"explain", "conv"}, {"explain", "linear"});
  EXPECT_EQ(both.exit, 0) << both.err;
  EXPECT_THAT(both.out, HasSubstr("conv("));
  EXPECT_THAT(both.out, HasSubstr("linear("));
  EXPECT_THAT(both.err, Not(HasSubstr("works in one process")));
}

TEST_F(LaunchedCommands, AreRejectedWithOneErrorIfTheirCommandsDiffer) {
  const Words train{"train", "tiny.xgraph", "--progress", "none"};
  struct Case {
    Words first;
    Words second;
    std::string said;
  };
  for (const Case& one : {Case{train, {"plan", "tiny.xgraph"}, "`xrun plan`, and rank 0 `xrun train`"},
                          Case{{"plan", "tiny.xgraph"}, train, "`xrun train`, and rank 0 `xrun plan`"},
                          Case{train, {"check", "tiny.xgraph"}, "`xrun check`, and rank 0 `xrun train`"},
                          Case{{"bench", "comm", "--mib", "1"}, train, "`xrun train`, and rank 0 `xrun bench comm`"}}) {
    const auto result = pair(one.first, one.second);
    EXPECT_EQ(result.exit, 1) << result.err;
    EXPECT_EQ(count(result.err, "error[XG0833]"), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr("was started with another command than rank 0: " + one.said));
    EXPECT_THAT(result.err, Not(HasSubstr("internal error")));
  }
}

TEST_F(LaunchedCommands, AreRejectedWithOneErrorIfAnInstructionSetIsUnknown) {
  const Words train{"train", "tiny.xgraph", "--progress", "none"};
  const auto wrong = pair(train, train, "XRUN_ISA=sse");
  EXPECT_EQ(wrong.exit, 2) << wrong.err;
  EXPECT_EQ(count(wrong.err, "error[XG0802]"), 1) << wrong.err;
}

TEST_F(LaunchedCommands, AreRejectedWithOneErrorIfTheirInstructionSetsDiffer) {
  if (run_xrun({"doctor"}, {.environment = {{"XRUN_ISA", "avx512"}}}).exit != 0) {
    GTEST_SKIP() << "this processor has one instruction set only";
  }
  const Words train{"train", "tiny.xgraph", "--progress", "none"};
  const auto other = pair(train, train, "XRUN_ISA=avx2");
  EXPECT_EQ(other.exit, 4) << other.err;
  EXPECT_EQ(count(other.err, "error[XG0833]"), 1) << other.err;
  const auto plan = pair({"plan", "tiny.xgraph"}, {"plan", "tiny.xgraph"}, "XRUN_ISA=avx2");
  EXPECT_EQ(count(plan.err, "error[XG0833]"), 1) << plan.err;
}

}  // namespace
}  // namespace xrun::testing
