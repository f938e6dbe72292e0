// `xrun bench` as a user calls it: rejected flags, and figures of a tiny head that must be consistent.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "graph/base/units.h"
#include "tests/support/command.h"
#include "tests/support/golden.h"

namespace xrun::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

CommandResult bench_head(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"bench", "head"});
  return run_xrun(flags);
}

// Returns the flags of a head whose step takes a few milliseconds.
std::vector<std::string> tiny(const std::vector<std::string>& more = {}, const std::string& threads = "2") {
  std::vector<std::string> flags{"--classes", "2000",     "--dim", "24",        "--batch",
                                 "64",        "--rounds", "3",     "--threads", threads};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

nlohmann::json json_of(std::vector<std::string> more, const std::string& threads = "2") {
  more.insert(more.end(), {"--format", "json"});
  const CommandResult result = bench_head(tiny(more, threads));
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_TRUE(result.err.empty() || result.err.starts_with("note: the machine was loaded: ")) << result.err;
  return result.exit == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
}

TEST(BenchCommand, HelpNamesTheBenchmarksAndTheFlagsOfEach) {
  EXPECT_TRUE(test::matches_golden(run_xrun({"bench", "--help"}).out, "help/bench.txt"));
  EXPECT_TRUE(test::matches_golden(run_xrun({"bench", "head", "--help"}).out, "help/bench_head.txt"));
}

TEST(BenchCommand, CollectivesOfTwoDevicesAreMeasured) {
  const CommandResult result =
      run_xrun({"bench", "comm", "--mib", "2", "--rounds", "4", "--threads", "2", "--format", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("devices"), 2);
  EXPECT_EQ(json.at("ranks"), 1);
  for (const char* name : {"all_gather", "reduce_scatter"}) {
    EXPECT_GT(json.at(name).at("bytes_per_s"), 0) << name;
    EXPECT_LE(json.at(name).at("min_s"), json.at(name).at("median_s")) << name;
    EXPECT_EQ(json.at(name).at("seconds").size(), 4U) << name;
  }
}

// `xrun bench` starts another program, which reads the command line and the environment again.
TEST(BenchCommand, ArgumentsAndVariablesReachTheBenchmarkProgram) {
  const CommandResult result = run_xrun({"--format", "json", "bench", "--threads=2", "comm", "--rounds", "2"},
                                        {.environment = {{"XRUN_MIB", "1"}}});
  ASSERT_EQ(result.exit, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("bytes"), kMiB);
  EXPECT_EQ(json.at("all_gather").at("seconds").size(), 2U);
  const CommandResult warned =
      run_xrun({"bench", "comm", "--mib", "1", "--rounds", "1"}, {.environment = {{"XRUN_THREDS", "2"}}});
  EXPECT_EQ(warned.exit, 0);
  EXPECT_EQ(warned.err, "warning: `XRUN_THREDS` in the environment has no effect: did you mean `XRUN_THREADS`?\n");
}

TEST(BenchCommand, FiguresOfATinyHeadArePositiveAndConsistent) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--dtype", "bf16"}, {"--cosine", "--margin", "0.5", "--shards", "3"}}) {
    const nlohmann::json json = json_of(more);
    ASSERT_FALSE(json.is_null());
    SCOPED_TRACE(json.dump());
    for (const char* key :
         {"median_s", "min_s", "forward_s", "backward_s", "samples_per_s", "peak_bytes", "before_bytes",
          "weights_bytes", "logits_bytes", "buffers_bytes", "beyond_bytes", "first_loss"}) {
      const double value = json.at(key);
      EXPECT_TRUE(std::isfinite(value) && value > 0) << key << " = " << value;
    }
    const nlohmann::json& roofline = json.at("roofline");
    for (const char* key : {"share", "processor_share", "flops_per_s", "exponentials_per_s", "bytes_per_s"}) {
      const double value = roofline.at(key);
      EXPECT_TRUE(std::isfinite(value) && value > 0) << key << " = " << value;
    }
    EXPECT_EQ(roofline.at("flops").get<double>(), 6.0 * 64 * 2000 * 24);
    EXPECT_EQ(roofline.at("exponentials").get<double>(), 2.0 * 64 * 2000);
    EXPECT_EQ(roofline.at("bytes").get<int64_t>(), 12 * 2000 * 24 + 8 * 64 * 2000);
    EXPECT_EQ(json.at("logits_bytes").get<int64_t>(), 2000 * 64 * 4);
    EXPECT_EQ(json.at("step_s").size(), 3u);
    EXPECT_LE(json.at("min_s").get<double>(), json.at("median_s").get<double>());
    EXPECT_EQ(json.at("weights_bytes").get<int64_t>(), 2000 * 24 * 4);
    EXPECT_EQ(json.at("peak_bytes").get<int64_t>(), json.at("weights_bytes").get<int64_t>() +
                                                        json.at("logits_bytes").get<int64_t>() +
                                                        json.at("beyond_bytes").get<int64_t>());
    EXPECT_GE(json.at("peak_bytes").get<int64_t>(), json.at("before_bytes").get<int64_t>());
    EXPECT_LT(json.at("last_loss").get<double>(), json.at("first_loss").get<double>()) << "the steps do not learn";
    EXPECT_EQ(json.at("threads").get<int>(), 2);
  }
}

// The loss is computed by the kernels of training, so it does not depend on how the head is divided.
TEST(BenchCommand, ShardsAndThreadsDoNotChangeTheLoss) {
  const nlohmann::json whole = json_of({});
  const nlohmann::json cut = json_of({"--shards", "5"}, "1");
  ASSERT_FALSE(whole.is_null() || cut.is_null());
  EXPECT_EQ(whole.at("first_loss"), cut.at("first_loss"));
  EXPECT_EQ(whole.at("last_loss"), cut.at("last_loss"));
}

TEST(BenchCommand, KeptLogitsSaveOperationsAndDoNotChangeTheLoss) {
  const nlohmann::json kept = json_of({});
  const nlohmann::json half = json_of({"--kept", "0.5"});
  const nlohmann::json none = json_of({"--kept", "0"});
  ASSERT_FALSE(kept.is_null() || half.is_null() || none.is_null());
  for (const nlohmann::json& other : {half, none}) {
    EXPECT_EQ(other.at("first_loss"), kept.at("first_loss"));
    EXPECT_EQ(other.at("last_loss"), kept.at("last_loss"));
  }
  EXPECT_EQ(none.at("logits_bytes").get<int64_t>(), 0);
  EXPECT_EQ(half.at("logits_bytes").get<int64_t>(), 16 * 64 * 64 * 4);  // 16 of 32 class blocks are kept
  EXPECT_EQ(none.at("roofline").at("flops").get<double>(), 8.0 * 64 * 2000 * 24);
  EXPECT_EQ(none.at("roofline").at("bytes").get<int64_t>(), 12 * 2000 * 24);
}

TEST(BenchCommand, RowsInBf16AndFp8NeedLessMemoryAndLearn) {
  const nlohmann::json bf16 = json_of({"--weights", "bf16", "--momentum", "bf16"});
  const nlohmann::json fp8 = json_of({"--weights", "fp8", "--momentum", "f32"});
  ASSERT_FALSE(bf16.is_null() || fp8.is_null());
  EXPECT_EQ(bf16.at("weights_bytes").get<int64_t>(), 2000 * 24 * 2);
  EXPECT_EQ(bf16.at("states_bytes").get<int64_t>(), 2000 * 24 * 2);
  EXPECT_EQ(fp8.at("weights_bytes").get<int64_t>(), 2000 * 24 + align_up(2000 * 4));
  EXPECT_EQ(fp8.at("states_bytes").get<int64_t>(), 2000 * 24 * 4);
  for (const nlohmann::json& json : {bf16, fp8}) {
    EXPECT_LT(json.at("last_loss").get<double>(), json.at("first_loss").get<double>());
  }
}

TEST(BenchCommand, StepsWithActiveClassesHaveTheSameLossForAnyShards) {
  for (const char* mode : {"sample", "knn"}) {
    const nlohmann::json whole = json_of({"--mode", mode, "--active", "300"});
    const nlohmann::json cut = json_of({"--mode", mode, "--active", "300", "--shards", "2", "--kept", "0"}, "1");
    ASSERT_FALSE(whole.is_null() || cut.is_null());
    EXPECT_EQ(whole.at("first_loss"), cut.at("first_loss"));
    EXPECT_EQ(whole.at("last_loss"), cut.at("last_loss"));
    EXPECT_LT(whole.at("last_loss").get<double>(), whole.at("first_loss").get<double>());
    EXPECT_EQ(whole.at("active"), 300);
    EXPECT_GT(whole.at("selection_s").get<double>(), 0);
    EXPECT_EQ(cut.at("roofline").at("flops").get<double>(), 8.0 * 64 * 300 * 24);
    EXPECT_LT(whole.at("first_loss").get<double>(), std::log(500)) << "of 300 classes, not of 2 000";
    EXPECT_EQ(json_of({"--mode", mode}).at("active"), 200);
    EXPECT_EQ(whole.at("lists_bytes").get<int64_t>(), std::string(mode) == "knn" ? 2000 * 32 * 4 : 0);
  }
}

TEST(BenchCommand, TextHasALineForEachFigureAndMarkdownOneRow) {
  const CommandResult text = bench_head(tiny());
  ASSERT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("2 000 classes x 24, batch 64, f32 products, f32 weights, full, 1 shard, 2 threads"));
  EXPECT_THAT(text.out, ContainsRegex("\n  step       [0-9.]+ [mu]?s \\(least [0-9.]+ [mu]?s, 3 rounds\\): forward"));
  EXPECT_THAT(text.out, ContainsRegex("\n  memory     [0-9.]+ MiB at its peak: 187.5 KiB class weights, 0 B states, "));
  EXPECT_THAT(text.out, ContainsRegex("\n  roofline   ([0-9]+ % of [0-9.]+ GFLOP/s \\(.*\\), [0-9.]+ billion "
                                      "exponentials/s and [0-9.]+ GB/s|not known, since other programs used the "
                                      "processors)([;,] by processor time [0-9]+ %)?\n"));

  const CommandResult markdown = bench_head(tiny({"--format", "md"}));
  ASSERT_EQ(markdown.exit, 0) << markdown.err;
  std::istringstream lines(markdown.out);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, "| head | step | samples/s | memory | roofline | machine |");
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, "|---|---|---|---|---|---|");
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 7) << line;
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(BenchCommand, ShardsWithoutClassesAreReportedAndHaveNoCost) {
  EXPECT_EQ(bench_head({"--classes", "20", "--dim", "4", "--batch", "8", "--rounds", "1", "--mode", "knn"}).exit, 0)
      << "lists are no longer than there are classes";
  const CommandResult result = bench_head(tiny({"--shards", "40"}));  // 32 blocks of 64 classes
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("note: 8 of 40 shards own no class: 2 000 classes are 32 class blocks"));
  EXPECT_EQ(bench_head({"--classes", "1", "--dim", "1", "--batch", "1", "--rounds", "1"}).exit, 0);
}

TEST(BenchCommand, WrongFlagsAreRefusedWithTheirCauseAndFix) {
  const auto refused = [](const std::vector<std::string>& flags, const std::string& cause, const std::string& fix) {
    const CommandResult result = bench_head(flags);
    EXPECT_EQ(result.exit, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(cause));
    EXPECT_THAT(result.err, HasSubstr(fix));
  };
  refused({"--classes", "0"}, "`--classes 0` is not a number from 1 to 2 147 483 647", "--classes 1M");
  refused({"--classes", "3000M"}, "`--classes 3000000000` is not a number", "--classes 1M");
  refused({"--classes", "many"}, "--classes", "`xrun bench head --help` lists what it takes");
  refused({"--dim", "-1"}, "`--dim -1` is not a number from 1 to 65 536", "--dim 128");
  refused({"--batch", "0"}, "`--batch 0`", "--batch 256");
  refused({"--shards", "0"}, "`--shards 0`", "--shards 2");
  refused({"--rounds", "0"}, "`--rounds 0`", "--rounds 5");
  refused({"--mode", "some"}, "--mode: some not in {full,sample,knn}", "`xrun bench head --help` lists");
  refused({"--active", "100"}, "with --mode full all are active", "add --mode sample");
  refused({"--mode", "sample", "--active", "2001", "--classes", "2000"},
          "`--active 2001` is not a number from 1 to 2 000", "--active 256");
  refused({"--mode", "sample", "--active", "0", "--classes", "50K"}, "`--active 0` is not a number", "--active 5000");
  refused({"--active", "0"}, "with --mode full all are active", "add --mode sample");
  refused({"--mode", "sample", "--active", "10", "--batch", "256"},
          "`--active 10` is too few: a step of 256 rows may have targets of 256 classes", "--active 100000");
  refused({"--mode", "knn", "--neighbours", "2001", "--classes", "2000"},
          "`--neighbours 2001` is not a number from 1 to 2 000", "--neighbours 32");
  refused({"--mode", "knn", "--neighbours", "21", "--classes", "20"}, "is not a number from 1 to 20",
          "--neighbours 20");
  refused({"--neighbours", "5"}, "`--neighbours` is the length of lists, which only --mode knn has", "add --mode knn");
  refused({"--mode", "knn", "--neighbours", "0"}, "`--neighbours 0`", "--neighbours 32");
  refused({"--weights", "int8"}, "--weights: int8 not in {f32,bf16,fp8}", "`xrun bench head --help` lists");
  refused({"--momentum", "fp8"}, "--momentum: fp8 not in {none,f32,bf16}", "`xrun bench head --help` lists");
  refused({"--dtype", "bf61"}, "--dtype", "did you mean `bf16`?");
  refused({"--kept", "1.5"}, "`--kept 1.5` is not a share from 0 to 1", "--kept 0.5");
  refused({"--margin", "0.5"}, "these logits are not cosines", "add --cosine");
  refused({"--margin", "nan", "--cosine"}, "`--margin nan` is not an angle", "--margin 0.5");
  refused({"--clases", "5"}, "`xrun bench head` does not know `--clases`", "did you mean `--classes`?");
  refused({"--set", "train.lr=1"}, "`--set` (or its XRUN_ variable) has no effect", "leave it out");
  refused({"--devices", "2"}, "`--devices`", "--threads 2");
}

TEST(BenchCommand, BenchJitIsRejectedIfCompilationIsOff) {
  const CommandResult off = run_xrun({"bench", "jit"}, {.environment = {{"XRUN_JIT", "off"}}});
  EXPECT_EQ(off.exit, 2);
  EXPECT_THAT(off.err, AllOf(HasSubstr("XG0821"), HasSubstr("XRUN_JIT=off leaves nothing to measure")));
  const CommandResult none = run_xrun({"bench", "jit", "--rounds", "0"});
  EXPECT_EQ(none.exit, 2);
  EXPECT_THAT(none.err, HasSubstr("`--rounds 0` is not a number from 1 to 10 000"));
}

TEST(BenchCommand, UnknownBenchmarksAreNamedWithTheKnownOnes) {
  const CommandResult without = run_xrun({"bench"});
  EXPECT_EQ(without.exit, 2);
  EXPECT_EQ(
      without.err,
      "error: `xrun bench` needs a command\nhelp: one of head, knn, comm, jit, data; `xrun bench --help` says what "
      "they do\n");
  const CommandResult unknown = run_xrun({"bench", "haed"});
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_EQ(unknown.err, "error: there is no command `bench haed`\nhelp: did you mean `head`?\n");
  EXPECT_THAT(run_xrun({"bench", "head", "--classes", "0", "--format", "json"}).err,
              HasSubstr("\"severity\":\"error\""));
  const CommandResult elsewhere = run_xrun({"doctor", "--format", "md"});
  EXPECT_EQ(elsewhere.exit, 2);
  EXPECT_THAT(elsewhere.err, HasSubstr("only `xrun bench` prints Markdown"));
}

TEST(BenchCommand, VariablesOfBenchFlagsAffectOnlyBench) {
  const auto with = [](const std::vector<std::string>& words) {
    return run_xrun(words, {.environment = {{"XRUN_CLASSES", "0"}, {"XRUN_MARGIN", "far"}}});
  };
  EXPECT_EQ(with({"doctor"}).exit, 0);
  const CommandResult result = with({"bench", "head", "--margin", "0"});
  EXPECT_EQ(result.exit, 2);
  EXPECT_THAT(result.err, HasSubstr("`--classes 0`"));
  EXPECT_THAT(result.err, HasSubstr("note: from the environment: XRUN_CLASSES=0"));
}

TEST(BenchCommand, AHeadThatDoesNotFitIsRefusedBeforeItsMemoryIsMapped) {
  const CommandResult result = bench_head({"--classes", "2000M", "--dim", "65536"});
  EXPECT_EQ(result.exit, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("error[XG0601]: the head does not fit: it needs "));
  EXPECT_THAT(result.err, HasSubstr("class weights take 488281.2 GiB"));
  EXPECT_THAT(result.err, ContainsRegex("help: at most [0-9 ]+ classes fit: --classes [0-9]+"));
}

}  // namespace
}  // namespace xrun::testing
