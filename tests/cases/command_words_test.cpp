// Words that people type around a command: counts with suffixes, environment variables, a pipe whose reader has ended,
// the help of a command, and directories in place of files.
#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cases/case_files.h"
#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

const std::string kXrun = std::string(XRUN_BINARY_DIR) + "/xrun";

TEST(HelpOfACommand, ListsTheFlagsOfEveryCommand) {
  for (const Words& command : {Words{"train", "-h"}, Words{"show", "--help"}, Words{"bench", "head", "-h"}}) {
    const auto help = run_xrun(command);
    EXPECT_EQ(help.exit, 0);
    EXPECT_THAT(help.out, HasSubstr("Flags of every command:"));
    for (const char* flag : {"--set PATH=VALUE", "--threads", "--deterministic", "-q,--quiet", "--format"}) {
      EXPECT_THAT(help.out, HasSubstr(flag)) << command[0];
    }
  }
  EXPECT_THAT(run_xrun({"train", "-h"}).out, HasSubstr("--resume"));
  EXPECT_THAT(run_xrun({"-h"}).out, HasSubstr("Flags of every command:"));
}

TEST(CountsOnTheCommandLine, TakeSuffixesAndUnderscores) {
  for (const char* classes : {"2k", "2K", "2_000", "0.002M", "2000", "0x7D0"}) {
    const auto bench =
        run_xrun({"bench", "head", "--classes", classes, "--dim", "0.016k", "--batch", "1_6", "--rounds", "1"});
    EXPECT_EQ(bench.exit, 0) << bench.err;
    EXPECT_THAT(bench.out, HasSubstr("2 000 classes")) << classes;
  }
  TemporaryDirectory at;
  at.write("tiny.xgraph", tiny_model());
  const CommandOptions here{.directory = at.path()};
  // A leading zero does not mean an octal number.
  const auto plan = run_xrun({"plan", "tiny.xgraph", "--dry-run", "--threads", "010", "--devices", "08"}, here);
  EXPECT_EQ(plan.exit, 0) << plan.err;
  EXPECT_THAT(plan.out, StartsWith("tiny on 8 x cpu"));
  EXPECT_THAT(plan.out, HasSubstr("cpu 1  2 threads")) << "ten threads";
  const auto steps =
      run_xrun({"train", "tiny.xgraph", "--steps", "0.002K", "--progress", "json", "--devices", "1"}, here);
  EXPECT_EQ(steps.exit, 0) << steps.err;
  EXPECT_THAT(steps.out, HasSubstr("\"t\":\"end\""));
  EXPECT_THAT(steps.out, HasSubstr("\"step\":2"));
}

TEST(CountsOnTheCommandLine, AreRefusedIfNotWholeNumbers) {
  for (const char* word :
       {"20m", "1.5", "2e3", "_2", "2__0", "1.2345K", "99999999999999999999", "9223372036854776K", "k", "", "2 k"}) {
    const auto bench = run_xrun({"bench", "head", "--classes", word});
    EXPECT_EQ(bench.exit, 2) << word;
    EXPECT_THAT(bench.err, HasSubstr("is not a whole number, such as 20000, 20_000 or 20K")) << word;
    EXPECT_THAT(bench.err, HasSubstr("--classes")) << word;
  }
  const auto threads = run_xrun({"explain", "conv", "--threads", "5k"});
  EXPECT_EQ(threads.exit, 2);
  EXPECT_THAT(threads.err, HasSubstr("5000 not in range 1 to 4096"));
  const auto variable = run_xrun({"doctor"}, {.environment = {{"XRUN_THREADS", "many"}}});
  EXPECT_EQ(variable.exit, 2);
  EXPECT_THAT(variable.err, HasSubstr("`XRUN_THREADS=many` in the environment"));
}

TEST(VariablesOfTheEnvironment, CountAsUnsetIfEmpty) {
  TemporaryDirectory at;
  at.write("tiny.xgraph", tiny_model());
  const Words words{"show", "tiny.xgraph", "--emit", "backward"};
  const auto plain = run_xrun(words, {.directory = at.path()});
  ASSERT_EQ(plain.exit, 0) << plain.err;
  for (const char* name : {"XRUN_ISA", "XRUN_JIT", "XRUN_THREADS", "XRUN_SET", "XRUN_RESTARTS", "XRUN_DEVICES",
                           "XRUN_COLOR", "XRUN_DETERMINISTIC", "XRUN_COST", "XRUN_RANK_EXITS", "XRUN_CLUSTER"}) {
    const auto empty = run_xrun(words, {.directory = at.path(), .environment = {{name, ""}}});
    EXPECT_EQ(empty.exit, 0) << name << ": " << empty.err;
    EXPECT_EQ(empty.out, plain.out) << name;
  }
  const auto wrong = run_xrun({"plan", "tiny.xgraph"}, {.directory = at.path(), .environment = {{"XRUN_ISA", "sse"}}});
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.err, HasSubstr("XG0802"));
}

TEST(VariablesOfTheEnvironment, AreNamedIfMisspelt) {
  const auto typo = run_xrun({"explain", "conv"}, {.environment = {{"XRUN_THREAD", "1"}, {"XRUN_JTI", "off"}}});
  EXPECT_EQ(typo.exit, 0);
  EXPECT_THAT(typo.err,
              HasSubstr("warning: `XRUN_THREAD` in the environment has no effect: did you mean `XRUN_THREADS`?"));
  EXPECT_THAT(typo.err, HasSubstr("did you mean `XRUN_JIT`?"));
  const auto other =
      run_xrun({"explain", "conv"}, {.environment = {{"XRUN_BENCHMARK_HOST", "a"}, {"XRUN_STEPS", "3"}}});
  EXPECT_EQ(other.err, "") << "neither a variable of others nor one of another command is an error";
  EXPECT_EQ(run_xrun({"explain", "conv", "-q"}, {.environment = {{"XRUN_THREAD", "1"}}}).err, "");
}

// An unset variable of a shell, as in `-o "$OUT"`, must not stand for the default.
TEST(ValuesOnTheCommandLine, AreRefusedIfEmpty) {
  TemporaryDirectory at;
  at.write("tiny.xgraph", tiny_model());
  const CommandOptions here{.directory = at.path()};
  for (const Words& words :
       {Words{"plan", "tiny.xgraph", "-o", ""}, Words{"plan", "tiny.xgraph", "--why", ""}, Words{"train", ""},
        Words{"train", "tiny.xgraph", "-C", ""}, Words{"eval", "tiny.xgraph", "ckpt", "--confusion", ""},
        Words{"predict", "ckpt", "--source", ""}, Words{"check", "tiny.xgraph", "--run", ""},
        Words{"explain", "conv", ""}, Words{"check", "tiny.xgraph", "--cluster", ""}}) {
    const auto refused = run_xrun(words, here);
    EXPECT_EQ(refused.exit, 2) << words[0] << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("its value is empty")) << words[0];
  }
  EXPECT_FALSE(std::filesystem::exists(at.path() + "/tiny.xplan"));
}

TEST(FlagsOfEveryCommand, AreRefusedIfTheyHaveNoEffect) {
  for (const Words& words :
       {Words{"doctor", "--set", "a=b"}, Words{"doctor", "--devices", "2"}, Words{"fmt", "a.xgraph", "--run", "r"},
        Words{"new", "x", "--deterministic"}, Words{"eval", "ckpt", "-C", "run"},
        Words{"plan", "a.xgraph", "-C", "run"}, Words{"show", "ckpt", "-C", "run"}}) {
    const auto refused = run_xrun(words);
    EXPECT_EQ(refused.exit, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("has no effect on `xrun " + words[0] + "`"));
  }
  EXPECT_EQ(run_xrun({"doctor"}, {.environment = {{"XRUN_THREADS", "1"}}}).exit, 0) << "it is for other commands";
}

// In `xrun ... | true`, the program `true` ends before xrun writes.
TEST(APipeThatNobodyReads, GivesTheExitCodeOfSystemErrors) {
  TemporaryDirectory at;
  at.write("tiny.xgraph", tiny_model());
  const Words commands[] = {{"explain", "--list"},
                            {"doctor"},
                            {"plan", "tiny.xgraph", "--dry-run"},
                            {"show", "tiny.xgraph", "--emit", "tokens"}};
  for (const Words& words : commands) {
    std::string line = "cd " + at.path() + " && { { sleep 0.3; exec " + kXrun;
    for (const std::string& word : words) {
      line += " " + word;
    }
    line += "; } | true; exit ${PIPESTATUS[0]}; }";
    const auto result = run_xrun({"-c", line}, {.binary = "/bin/bash"});
    EXPECT_EQ(result.exit, 4) << words[0] << result.err;
    EXPECT_THAT(result.err, HasSubstr("the results cannot be written to stdout")) << words[0];
  }
}

TEST(APipeThatNobodyReads, EndsACommandUnderRestartsWithItsOwnSignal) {
  const auto result = run_xrun({"train", "--restarts", "0", "--", "/bin/bash", "-c", "kill -PIPE $$; exit 3"});
  EXPECT_EQ(result.exit, 128 + 13) << "the program behind `--` has the signals of a program";
}

TEST(ShowOfADirectory, DescribesItsOnlyRun) {
  TemporaryDirectory at;
  at.write("tiny.xgraph", tiny_model());
  const CommandOptions here{.directory = at.path()};
  ASSERT_EQ(run_xrun({"train", "tiny.xgraph", "--steps", "3", "--progress", "none", "-C", "runs/one"}, here).exit, 0);
  for (const char* name : {"runs/one", "runs/one/", "runs", "runs/one/ckpt"}) {
    const auto shown = run_xrun({"show", name}, here);
    EXPECT_EQ(shown.exit, 0) << name << shown.err;
    EXPECT_THAT(shown.out, HasSubstr("log.jsonl")) << name;
    EXPECT_THAT(shown.out, HasSubstr("   step 3   ")) << name;
  }
  const auto json = nlohmann::json::parse(run_xrun({"show", "runs/one", "--format", "json"}, here).out);
  EXPECT_EQ(json["checkpoint"]["step"], 3);
  EXPECT_EQ(json["log"]["last_step"], 3);
  const auto run = std::filesystem::path(json["directory"].get<std::string>());
  // A run that was killed before its first save has only a log.
  for (const auto& entry : std::filesystem::directory_iterator(at.path() + "/" + run.native())) {
    if (entry.path().filename() != "log.jsonl") {
      std::filesystem::remove_all(entry.path());
    }
  }
  const auto killed = run_xrun({"show", "runs/one"}, here);
  EXPECT_EQ(killed.exit, 0) << killed.err;
  EXPECT_THAT(killed.out, HasSubstr("log.jsonl"));
  // Now `runs` has several runs, and another directory has no runs.
  ASSERT_EQ(run_xrun({"train", "tiny.xgraph", "--steps", "1", "--progress", "none", "-C", "runs/two"}, here).exit, 0);
  const auto several = run_xrun({"show", "runs"}, here);
  EXPECT_EQ(several.exit, 2);
  EXPECT_THAT(several.err, HasSubstr("`runs` holds several runs: runs/one/"));
  EXPECT_THAT(several.err, HasSubstr("name one of them: xrun show runs/one/"));
  std::filesystem::create_directory(at.path() + "/empty");
  const auto none = run_xrun({"show", "empty"}, here);
  EXPECT_EQ(none.exit, 1);
  EXPECT_THAT(none.err, HasSubstr("XG0909]: `empty` is a directory without a checkpoint and without a log"));
  EXPECT_EQ(run_xrun({"show", "runs/one", "--gantt"}, here).exit, 2);
}

constexpr const char* kBare = R"(xgraph 1

option width: int = 8

model net {
  input x: f32[N, 3, 8, 8]
  a = x -> conv(width, 3) -> relu
  b = a -> flatten -> linear(10)
  output b
}
)";

TEST(ShowOfABareModel, HasShapesParametersOperationsAndActivations) {
  TemporaryDirectory at;
  at.write("net.xgraph", kBare);
  const CommandOptions here{.directory = at.path()};
  const auto shown = run_xrun({"show", "net.xgraph"}, here);
  ASSERT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(shown.out, StartsWith("net   4 operators\n  input   x: f32[N, 3, 8, 8]\n  output  b: f32[N, 10]\n"));
  const auto json = nlohmann::json::parse(run_xrun({"show", "net.xgraph", "--format", "json"}, here).out);
  EXPECT_EQ(json["parameters"], 8 * 27 + 512 * 10 + 10);
  EXPECT_EQ(json["activations"], 3 * 512 + 10) << "conv, relu and flatten give 512 numbers";
  EXPECT_GE(json["flops"].get<double>(), 2 * (512 * 27 + 512 * 10));
  EXPECT_LE(json["flops"].get<double>(), 2.2 * (512 * 27 + 512 * 10));
  const auto table = run_xrun({"show", "net.xgraph", "--table", "layers"}, here);
  EXPECT_EQ(table.out, shown.out);
  const auto wide = run_xrun({"show", "net.xgraph", "--set", "width=16"}, here);
  EXPECT_THAT(wide.out, HasSubstr("16 x 8 x 8"));
  const auto gantt = run_xrun({"show", "net.xgraph", "--gantt"}, here);
  EXPECT_EQ(gantt.exit, 1) << "a schedule needs a plan";
  EXPECT_THAT(gantt.err, HasSubstr("XG0222"));
  // A mistake is reported once, as `check` reports it.
  at.write("wrong.xgraph", "xgraph 1\nmodel net {\n  input x: f32[N, 3]\n  y = x -> liner(3)\n  output y\n}\n");
  const auto wrong = run_xrun({"show", "wrong.xgraph"}, here);
  EXPECT_EQ(wrong.exit, 1);
  EXPECT_EQ(wrong.err.find("error"), wrong.err.rfind("error"));
}

}  // namespace
}  // namespace xrun::testing
