// `xrun bench knn` as a user calls it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/golden.h"

namespace xrun::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

CommandResult bench_knn(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"bench", "knn"});
  return run_xrun(flags);
}

// Runs a build that takes some milliseconds.
CommandResult tiny(std::vector<std::string> more) {
  more.insert(more.end(), {"--classes", "2K", "--dim", "24", "--neighbours", "8", "--threads", "2"});
  return bench_knn(more);
}

TEST(BenchKnn, HelpNamesItsFlags) {
  EXPECT_TRUE(test::matches_golden(run_xrun({"bench", "knn", "--help"}).out, "help/bench_knn.txt"));
}

TEST(BenchKnn, FiguresArePositiveAndConsistent) {
  const CommandResult result = tiny({"--format", "json", "--rounds", "4"});
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_TRUE(result.err.empty() || result.err.starts_with("note: the machine was loaded: ")) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  const double median = json.at("median_s");
  const double least = json.at("min_s");
  EXPECT_GT(least, 0);
  EXPECT_LE(least, median);
  EXPECT_EQ(json.at("build_s").size(), 4u);
  EXPECT_NEAR(json.at("pairs_per_s").get<double>() * median, 2000.0 * 1999 / 2, 1e-3);
  EXPECT_EQ(json.at("weights_bytes").get<int64_t>(), 2000 * 24 * 4);
  EXPECT_EQ(json.at("lists_bytes").get<int64_t>(), 2000 * 8 * 4);
  EXPECT_GT(json.at("peak_bytes").get<int64_t>(),
            json.at("weights_bytes").get<int64_t>() + json.at("lists_bytes").get<int64_t>());
  EXPECT_EQ(json.at("products").at("flops").get<double>(), 2000.0 * 1999 * 24);
  EXPECT_GT(json.at("products").at("share").get<double>(), 0);
  EXPECT_GT(json.at("products").at("processor_share").get<double>(), 0);
  EXPECT_EQ(json.at("synthetic"), true);
}

TEST(BenchKnn, TextHasALineForEachFigureAndMarkdownOneRow) {
  const CommandResult text = tiny({});
  ASSERT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("2 000 classes x 24, 8 neighbours, exact, random rows (synthetic), 2 threads"));
  EXPECT_THAT(text.out, ContainsRegex("\n  build     [0-9.]+ [mu]?s \\(least [0-9.]+ [mu]?s, 3 rounds\\)\n"));
  EXPECT_THAT(text.out, ContainsRegex("\n  products  ([0-9]+ % of [0-9.]+ GFLOP/s \\(.*\\)|not known, since other "
                                      "programs used the processors)([;,] by processor time [0-9]+ %)?\n"));
  const CommandResult markdown = tiny({"--format", "md"});
  ASSERT_EQ(markdown.exit, 0) << markdown.err;
  EXPECT_TRUE(markdown.out.starts_with("| knn | build | pairs/s | again | products | memory | machine |\n|---|"))
      << markdown.out;
}

TEST(BenchKnn, AnApproximateGraphHasARecall) {
  const CommandResult text = tiny({"--approximate", "--rows", "tree"});
  ASSERT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("8 neighbours, approximate, 16 probes, tree rows (synthetic), 2 threads"));
  EXPECT_THAT(text.out, ContainsRegex("\n  compared  [0-9]+ million of pairs, [0-9.]+ % of all\n"));
  EXPECT_THAT(text.out, ContainsRegex("\n  recall    [0-9.]+ % of the nearest of 256 classes, which took "));
  double before = 0;
  for (const char* probes : {"1", "100"}) {
    const CommandResult result = tiny({"--format", "json", "--approximate", "--probes", probes});
    ASSERT_EQ(result.exit, 0) << result.err;
    const auto json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json.at("exact"), false);
    EXPECT_EQ(json.at("probes").get<int64_t>(), std::stoll(probes));
    EXPECT_GT(json.at("recall").get<double>(), before);
    EXPECT_GT(json.at("compared").get<int64_t>(), 0);
    before = json.at("recall");
  }
  EXPECT_EQ(before, 1) << "2,000 classes have fewer than 100 cells";
}

TEST(BenchKnn, OneClassHasAGraph) {
  for (const bool approximate : {false, true}) {
    std::vector<std::string> flags = {"--classes", "1", "--dim", "1", "--rounds", "1"};
    if (approximate) {
      flags.push_back("--approximate");
    }
    EXPECT_EQ(bench_knn(flags).exit, 0);
  }
}

TEST(BenchKnn, WrongFlagsAreRefusedWithTheirCauseAndFix) {
  const auto refused = [](const std::vector<std::string>& flags, const std::string& cause, const std::string& fix) {
    const CommandResult result = bench_knn(flags);
    EXPECT_EQ(result.exit, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(cause));
    EXPECT_THAT(result.err, HasSubstr(fix));
  };
  refused({"--classes", "0"}, "`--classes 0` is not a number from 1 to 2 147 483 647", "--classes 100K");
  refused({"--dim", "-1"}, "`--dim -1` is not a number from 1 to 65 536", "--dim 128");
  refused({"--classes", "10", "--neighbours", "11"}, "`--neighbours 11` is not a number from 1 to 10",
          "--neighbours 10");
  refused({"--rounds", "0"}, "`--rounds 0`", "--rounds 3");
  refused({"--probes", "5"}, "`--probes` is for an approximate graph", "add --approximate");
  refused({"--approximate", "--probes", "0"}, "`--probes 0`", "--probes 16");
  refused({"--neighbors", "5"}, "`xrun bench knn` does not know `--neighbors`", "did you mean `--neighbours`?");
}

TEST(BenchKnn, AGraphThatDoesNotFitIsRefusedBeforeItsMemoryIsMapped) {
  const CommandResult result = bench_knn({"--classes", "2000M", "--neighbours", "2000"});
  EXPECT_EQ(result.exit, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("error[XG0601]: the graph does not fit: it needs "));
  EXPECT_THAT(result.err, ContainsRegex("help: at most [0-9 ]+ classes fit: --classes [0-9]+"));
}

}  // namespace
}  // namespace xrun::testing
