// Plans with the times of a calibrated machine, and `xrun bench --calibrate`.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A cluster whose updates and elementwise passes take `factor` times as long as those of a fast machine.
std::string cluster(const std::string& cpu, const std::string& instructions, double factor) {
  const std::string rate = std::to_string(static_cast<int64_t>(10'000 / factor)) + "MB/s";
  return "xgraph 1\n\ncluster here {\n  node {\n    cpu = \"" + cpu + "\"\n    memory = 8GiB\n    calibration {\n" +
         "      instructions = " + instructions + "\n      update = " + rate + "\n      bandwidth = [" + rate +
         "]\n    }\n  }\n}\n";
}

class Calibrations : public ::testing::Test {
 protected:
  Calibrations() { at.write("m.xgraph", tiny_model()); }
  CommandResult run(const std::vector<std::string>& words) const { return run_xrun(words, {.directory = at.path()}); }
  double step_of(const std::string& file) const {
    const auto plan = run({"plan", "m.xgraph", "--dry-run", "--format", "json", "--devices", "1", "--cluster", file});
    EXPECT_EQ(plan.exit, 0) << plan.err;
    return plan.exit == 0 ? nlohmann::json::parse(plan.out)["predicted"]["step_seconds"].get<double>() : 0;
  }
  TemporaryDirectory at;
};

TEST_F(Calibrations, PlansHaveTheirTimesAndNameThem) {
  at.write("fast.xgraph", cluster("gold", "amx", 1));
  at.write("slow.xgraph", cluster("tin", "avx2", 1000));
  EXPECT_GT(step_of("slow.xgraph"), 2 * step_of("fast.xgraph"));
  const auto plan = run({"plan", "m.xgraph", "-o", "m.xplan", "--devices", "1", "--cluster", "slow.xgraph"});
  EXPECT_EQ(plan.exit, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("  costs      measured by a calibration of tin, avx2\n"));
  EXPECT_THAT(run({"show", "m.xplan"}).out, HasSubstr("  costs      measured by a calibration of tin, avx2\n"));
  for (const std::vector<std::string>& words : {std::vector<std::string>{"show", "m.xplan", "--format", "json"},
                                                {"show", "m.xplan", "--table", "why", "--format", "json"}}) {
    EXPECT_EQ(nlohmann::json::parse(run(words).out)["calibration"], "tin, avx2");
  }
  EXPECT_THAT(run({"plan", "m.xgraph", "--dry-run"}).out, Not(HasSubstr("  costs ")));
  EXPECT_FALSE(
      nlohmann::json::parse(run({"plan", "m.xgraph", "--dry-run", "--format", "json"}).out).contains("calibration"));
}

TEST_F(Calibrations, ARunWarnsOfThoseOfAnotherMachine) {
  at.write("other.xgraph", cluster("tin", "avx2", 1));
  const auto other = run({"train", "m.xgraph", "--steps", "1", "--devices", "1", "--cluster", "other.xgraph"});
  EXPECT_EQ(other.exit, 0) << other.err;
  EXPECT_THAT(other.out + other.err, HasSubstr("XG0637"));
  EXPECT_THAT(other.out + other.err, HasSubstr("predicted times come from a calibration of tin, avx2"));
  const auto machine = nlohmann::json::parse(run({"doctor", "--format", "json"}).out);
  for (const std::string name : {"amx", "avx512_bf16", "avx512", "avx2"}) {
    at.write("own.xgraph", cluster(machine["cpu"], name, 1));
    const auto own =
        run({"train", "m.xgraph", "--steps", "1", "--devices", "1", "--cluster", "own.xgraph", "-C", name});
    EXPECT_EQ(own.exit, 0) << own.err;
    const bool warns = (own.out + own.err).find("XG0637") != std::string::npos;
    EXPECT_EQ(warns, machine["isa"] != name) << name;
  }
}

TEST_F(Calibrations, TheyDoNotChangeWhatIsLearned) {
  at.write("slow.xgraph", cluster("tin", "avx2", 1000));
  const auto end = [&](std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"train", "m.xgraph", "--steps", "3", "--devices", "1", "--deterministic", "--progress", "json"});
    const std::string out = run(words).out;
    const size_t at_weights = out.find("\"weights\"");
    return at_weights == std::string::npos ? out : out.substr(at_weights, 50);
  };
  EXPECT_EQ(end({"-C", "a"}), end({"-C", "b", "--cluster", "slow.xgraph"}));
}

TEST_F(Calibrations, TheCommandNeedsAFileAndNoOtherBenchmark) {
  const auto both = run({"bench", "jit", "--calibrate"});
  EXPECT_EQ(both.exit, 2) << both.out;
  const auto without = run({"bench", "--calibrate"});
  EXPECT_EQ(without.exit, 2) << without.out;
  EXPECT_THAT(without.err, HasSubstr("xrun bench --calibrate -o here.xgraph"));
  EXPECT_EQ(run({"bench"}).exit, 2);
  at.write("notes.txt", "do not overwrite");
  EXPECT_EQ(run({"bench", "--calibrate", "-o", "notes.txt"}).exit, 2);
}

TEST_F(Calibrations, DevicesThatNothingRunsAreRefusedByTraining) {
  const auto tpu = run({"train", "m.xgraph", "--steps", "1", "--set", "cluster.node.gpu=tpu_v3"});
  EXPECT_EQ(tpu.exit, 1) << tpu.out;
  EXPECT_THAT(tpu.err, HasSubstr("this plan can be shown, but nothing runs it: xrun has no programs for TPUs"));
  EXPECT_EQ(run({"plan", "m.xgraph", "--dry-run", "--set", "cluster.node.gpu=tpu_v3"}).exit, 0);
}

}  // namespace
}  // namespace xrun::testing
