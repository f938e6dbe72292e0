// Runs of several processes as a user starts them with mpirun on this host. They have the weights of one process for
// any number of ranks, write one log, and save checkpoints that any number of ranks can resume. If one rank cannot go
// on, all ranks end.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/runtime/data/data_files.h"
#include "tests/runtime/data/pair_sets.h"
#include "tests/support/command.h"
#include "tests/support/heavy_model.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

constexpr const char* kMpirun = "/usr/bin/mpirun";
const std::string kXrun = std::string(XRUN_BINARY_DIR) + "/xrun";

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

// Returns the values of `key` in the events of one kind.
std::vector<nlohmann::json> values(const std::string& events, const std::string& kind, const std::string& key) {
  std::vector<nlohmann::json> all;
  std::string line;
  for (std::istringstream in(events); std::getline(in, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.value("t", "") == kind) {
      all.push_back(event.value(key, nlohmann::json()));
    }
  }
  return all;
}

// Returns the tiny model with enough classes for several shards.
std::string model() {
  std::string text = tiny_model();
  text.erase(text.find("test \"size\""));
  return text.replace(text.find("int = 37"), 8, "int = 320");
}

class MpiCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kMpirun)) {
      GTEST_SKIP() << "no " << kMpirun << " (openmpi-bin): runs of several processes are not tested";
    }
    if (!fs::exists(fs::path(XRUN_BINARY_DIR) / "libxrun_mpi.so")) {
      GTEST_SKIP() << "built without MPI (libopenmpi-dev): runs of several processes are not tested";
    }
    directory.write("tiny.xgraph", model());
  }

  CommandOptions options() const {
    return {.binary = kMpirun,
            .directory = directory.path(),
            .environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}},
            .timeout_s = 120};
  }
  CommandResult one(const Words& words) const { return run_xrun(words, {.directory = directory.path()}); }
  // Runs mpirun with these words. Its own options come first: "-n", "2", ...
  CommandResult mpirun(const Words& words) const {
    return run_xrun(Words{"--oversubscribe", "--bind-to", "none"} + words, options());
  }
  CommandResult ranks(int ranks, const Words& words) const {
    return mpirun(Words{"-n", std::to_string(ranks), kXrun} + words);
  }
  // Runs `first` on rank 0 and `second` on rank 1.
  CommandResult pair(const Words& first, const Words& second) const {
    return mpirun(Words{"-n", "1", kXrun} + first + Words{":", "-n", "1", kXrun} + second);
  }
  // Expects that all ranks end and that one of them prints the only message.
  static void expect_refused(const CommandResult& result, int exit, const std::string& code) {
    EXPECT_FALSE(result.timed_out) << result.err;
    EXPECT_EQ(result.exit, exit) << result.err;
    EXPECT_EQ(count(result.err, "error["), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr("error[" + code + "]"));
    EXPECT_THAT(result.err, Not(HasSubstr("signal"))) << "a process crashed";
  }

  TemporaryDirectory directory;
};

// Ranks that are frozen, stopped or slow; these tests wait for most of their time.
class StoppedRanks : public MpiCommand {};

Words train(const std::string& directory, const Words& more = {}) {
  return Words{"train", "tiny.xgraph", "--devices", "4", "--deterministic", "--progress", "json", "-C", directory} +
         more;
}

TEST_F(MpiCommand, RanksHaveTheWeightsOfOneProcessAndOneLog) {
  for (const Words& plan : {Words{}, Words{"--set", "schedule.stages=2", "--set", "schedule.shard.id.over=4"}}) {
    const auto whole = one(train("one", plan));
    ASSERT_EQ(whole.exit, 0) << whole.err;
    for (int count_of_ranks = 2; count_of_ranks <= 4; ++count_of_ranks) {
      SCOPED_TRACE(std::to_string(count_of_ranks) + " ranks" + (plan.empty() ? "" : ", two stages"));
      const auto result = ranks(count_of_ranks, train("of" + std::to_string(count_of_ranks), plan));
      ASSERT_EQ(result.exit, 0) << result.err;
      for (const auto& [kind, key] : {std::pair("end", "weights"), std::pair("step", "loss"), std::pair("step", "step"),
                                      std::pair("eval", "metrics"), std::pair("checkpoint", "step")}) {
        EXPECT_FALSE(values(whole.out, kind, key).empty()) << kind;
        EXPECT_EQ(values(result.out, kind, key), values(whole.out, kind, key)) << kind << ", once for all ranks";
      }
      EXPECT_EQ(values(result.out, "start", "ranks"), std::vector<nlohmann::json>{count_of_ranks});
    }
    fs::remove_all(fs::path(directory.path()) / "one");
    for (const char* name : {"of2", "of3", "of4"}) {
      fs::remove_all(fs::path(directory.path()) / name);
    }
  }
}

// The model has a loss of two heads, a state, and a metric over all samples.
TEST_F(MpiCommand, RanksHaveTheMetricsAndStatesOfOneProcess) {
  std::string text = model();
  const auto replace = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
  };
  replace("  a       = x -> linear(32)",
          "  state level: [16] = 0\n\n  level = 0.9 * level + 0.1 * batch_mean(x)\n"
          "  a       = (x - level) -> linear(32)");
  replace("  head id =", "  head other = classifier(feature, classes)\n  head id =");
  replace("loss      = ", "loss      = 0.5 * softmax_ce(other, label) + ");
  replace("[accuracy(id, label)]", "[accuracy(id, label), accuracy(other, label), recall_at(feature, label, k=3)]");
  directory.write("tiny.xgraph", text);
  for (const Words& plan : {Words{"--set", "schedule.replicas=2"}, Words{"--set", "schedule.stages=2"}}) {
    const auto whole = one(train("one", plan));
    const auto result = ranks(2, train("two", plan));
    ASSERT_EQ(whole.exit, 0) << whole.err;
    ASSERT_EQ(result.exit, 0) << result.err;
    for (const auto& [kind, key] :
         {std::pair("end", "weights"), std::pair("step", "loss"), std::pair("eval", "metrics")}) {
      EXPECT_FALSE(values(whole.out, kind, key).empty()) << kind;
      EXPECT_EQ(values(result.out, kind, key), values(whole.out, kind, key)) << kind;
    }
    fs::remove_all(fs::path(directory.path()) / "one");
    fs::remove_all(fs::path(directory.path()) / "two");
  }
}

TEST_F(MpiCommand, RanksVerifyPairsAsOneProcessDoes) {
  if (!runtime::testing::reads_pairs()) {
    GTEST_SKIP() << "this version has no reader of verification sets";
  }
  runtime::testing::write_faces(directory);
  runtime::testing::write_templates(directory);
  std::string metrics = runtime::testing::kPairMetrics;
  metrics.replace(metrics.find("  eval {\n"), 9, "  eval {\n    ijbc = verification(ijbc, feature, folds=1)\n");
  directory.write("face.xgraph", runtime::testing::face_model(
                                     runtime::testing::kPairSource + runtime::testing::kTemplateSource, metrics));
  for (const std::string split : {"schedule.replicas=2", "schedule.stages=2"}) {
    SCOPED_TRACE(split);
    const auto words = [&](const std::string& to) {
      return Words{"train", "face.xgraph", "--devices", "2",  "--deterministic", "--progress", "json",
                   "-C",    to + split,    "--set",     split};
    };
    const auto whole = one(words("one"));
    const auto result = ranks(2, words("two"));
    ASSERT_EQ(whole.exit, 0) << whole.err;
    ASSERT_EQ(result.exit, 0) << result.err;
    for (const auto& [kind, key] :
         {std::pair("end", "weights"), std::pair("eval", "metrics"), std::pair("eval", "verification")}) {
      EXPECT_FALSE(values(whole.out, kind, key).empty()) << kind;
      EXPECT_EQ(values(result.out, kind, key), values(whole.out, kind, key)) << kind << "." << key;
    }
  }
}

TEST_F(MpiCommand, RanksReadTheirOwnRowsAndReportTheBrokenSamplesOfAll) {
  directory.write("m.xgraph", runtime::testing::folder_model(2));
  for (const char* source : {"train", "test"}) {
    for (int i = 0; i < 24; ++i) {
      const fs::path path =
          fs::path(directory.path()) / source / (i % 2 == 0 ? "a" : "b") / (std::to_string(i) + ".png");
      fs::create_directories(path.parent_path());
      std::ofstream(path, std::ios::binary)
          << (i % 5 == 3 ? "torn" : runtime::testing::png(4, static_cast<uint8_t>(10 * i)));
    }
  }
  const auto words = [](const std::string& to, const std::string& split) {
    return Words{"train", "m.xgraph",         "--devices", "2",  "--deterministic", "--progress", "json", "-C", to,
                 "--set", "data.max_bad=50%", "--set",     split};
  };
  for (const std::string split : {"schedule.replicas=2", "schedule.stages=2"}) {
    SCOPED_TRACE(split);
    const auto whole = one(words("one_" + split, split));
    ASSERT_EQ(whole.exit, 0) << whole.err;
    const auto result = ranks(2, words("two_" + split, split));
    ASSERT_EQ(result.exit, 0) << result.err;
    for (const auto& [kind, key] :
         {std::pair("end", "weights"), std::pair("end", "bad_samples"), std::pair("step", "loss"),
          std::pair("eval", "metrics"), std::pair("eval", "broken")}) {
      EXPECT_FALSE(values(whole.out, kind, key).empty()) << kind;
      EXPECT_EQ(values(result.out, kind, key), values(whole.out, kind, key)) << kind << "." << key;
    }
    const auto faults = [](const std::string& events) {
      std::set<std::string> messages;
      for (const auto& message : values(events, "warn", "message")) {
        EXPECT_TRUE(messages.insert(message.get<std::string>()).second) << message << " is told twice";
      }
      return messages;
    };
    EXPECT_EQ(faults(result.out), faults(whole.out));
    EXPECT_GE(faults(whole.out).size(), 8U) << whole.out;
  }
}

TEST_F(MpiCommand, CheckpointsResumeOnAnyNumberOfRanks) {
  const Words plan{"--set", "schedule.stages=2", "--set", "schedule.shard.id.over=3"};
  const auto whole = one(train("whole", plan));
  ASSERT_EQ(whole.exit, 0) << whole.err;
  CommandResult last;
  const std::vector<std::pair<int, int>> parts = {{4, 11}, {1, 23}, {2, 41}, {3, 60}};  // ranks, and the last step
  for (const auto& [count_of_ranks, steps] : parts) {
    const Words words = train("parts", plan + Words{"--steps", std::to_string(steps)});
    last = count_of_ranks == 1 ? one(words) : ranks(count_of_ranks, words);
    ASSERT_EQ(last.exit, 0) << count_of_ranks << " ranks: " << last.err;
  }
  EXPECT_EQ(values(last.out, "resume", "step"), std::vector<nlohmann::json>{41});
  EXPECT_EQ(values(last.out, "end", "weights"), values(whole.out, "end", "weights"));
  // Each rank has saved its class rows in a file of its own; one process saves them in one file.
  int head_files = 0;
  for (const auto& file : fs::directory_iterator(fs::path(directory.path()) / "parts/ckpt/quick/step-000060")) {
    head_files += file.path().filename().string().starts_with("head.id.") ? 1 : 0;
  }
  EXPECT_GE(head_files, 2);
  const auto measured = one({"eval", "tiny.xgraph", "parts/ckpt/quick/latest", "--format", "json"});
  EXPECT_EQ(measured.exit, 0) << measured.err;
}

// A run that was stopped on some number of ranks resumes on any other number.
TEST_F(MpiCommand, EveryPairOfRankCountsGoesOn) {
  if (std::getenv("XRUN_ALL_PLANS") == nullptr) {
    GTEST_SKIP() << "64 pairs of rank counts: set XRUN_ALL_PLANS=1 (make test-plans)";
  }
  constexpr int kMost = 8;
  for (const std::string classes : {"1623", "1000003"}) {
    const auto words = [&](const std::string& to, const std::string& steps) {
      return Words{"train",
                   "tiny.xgraph",
                   "--devices",
                   std::to_string(kMost),
                   "--deterministic",
                   "--progress",
                   "json",
                   "-C",
                   to,
                   "--set",
                   "classes=" + classes,
                   "--set",
                   "schedule.stages=2",
                   "--set",
                   "schedule.shard.id.over=8",
                   "--steps",
                   steps};
    };
    const auto run = [&](int count_of_ranks, const Words& what) {
      return count_of_ranks == 1 ? one(what) : ranks(count_of_ranks, what);
    };
    const auto whole = one(words("whole", "5"));
    ASSERT_EQ(whole.exit, 0) << whole.err;
    for (int saved = 1; saved <= kMost; ++saved) {
      ASSERT_EQ(run(saved, words("saved", "3")).exit, 0);
      for (int resumed = 1; resumed <= kMost; ++resumed) {
        SCOPED_TRACE(classes + " classes, saved by " + std::to_string(saved) + " ranks, resumed by " +
                     std::to_string(resumed));
        const fs::path root = directory.path();
        fs::copy(root / "saved", root / "resumed", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
        const auto result = run(resumed, words("resumed", "5"));
        ASSERT_EQ(result.exit, 0) << result.err;
        EXPECT_EQ(values(result.out, "resume", "step"), std::vector<nlohmann::json>{3});
        EXPECT_EQ(values(result.out, "end", "weights"), values(whole.out, "end", "weights"));
        fs::remove_all(root / "resumed");
      }
      fs::remove_all(fs::path(directory.path()) / "saved");
    }
    fs::remove_all(fs::path(directory.path()) / "whole");
  }
}

TEST_F(MpiCommand, RanksSaveInTheSameStepsWithAutomaticIntervals) {
  const Words often{"--set", "train.checkpoint.every=auto(mtbf=1s)", "--set", "train.epochs=40"};
  const auto plain = one(train("plain", {"--set", "train.epochs=40"}));
  ASSERT_EQ(plain.exit, 0) << plain.err;
  const auto two = ranks(2, train("two", often));
  ASSERT_EQ(two.exit, 0) << two.err;
  EXPECT_EQ(values(two.out, "end", "weights"), values(plain.out, "end", "weights"));
  EXPECT_GE(values(two.out, "checkpoint", "step").size(), 2U);
  for (const auto& next : values(two.out, "checkpoint", "next_s")) {
    ASSERT_TRUE(next.is_number());
    EXPECT_GT(next.get<double>(), 0);
    EXPECT_LE(next.get<double>(), 1);
  }
}

// Both ranks build and use a graph of nearest classes. Saves in the background have the tensors of saves between two
// steps, and are reported when they are durable on all ranks.
TEST_F(MpiCommand, BackgroundSavesOfRanksEqualSavesBetweenSteps) {
  const Words often{"--set", "train.checkpoint.every=7 steps", "--set", "train.checkpoint.keep=100"};
  for (const Words& active : {Words{}, Words{"--set",
                                             "train.active_classes=knn(neighbours=8, active=20%, "
                                             "rebuild=9 steps)"}}) {
    for (const int count_of_ranks : {2, 3}) {
      std::map<std::string, std::string> files[2];
      for (const bool in_background : {false, true}) {
        const std::string place = fmt::format("saves{}{}{}", active.size(), count_of_ranks, in_background);
        const Words how{"--set", fmt::format("train.checkpoint.async={}", in_background)};
        const auto result = ranks(count_of_ranks, train(place, often + active + how));
        ASSERT_EQ(result.exit, 0) << result.err;
        EXPECT_EQ(values(result.out, "checkpoint", "step").size(), 9U);
        for (const auto& entry : fs::recursive_directory_iterator(directory.path() + "/" + place)) {
          if (entry.path().extension() == ".safetensors") {
            const std::string name = fs::relative(entry.path(), directory.path() + "/" + place).string();
            std::ifstream in(entry.path(), std::ios::binary);
            files[in_background ? 1 : 0][name] = {std::istreambuf_iterator<char>(in), {}};
          }
        }
      }
      EXPECT_GE(files[0].size(), 9U * 3);
      EXPECT_TRUE(files[0] == files[1]) << count_of_ranks << " ranks";
    }
  }
}

// Ranks resume from the second copies of a run, also with another number of ranks.
TEST_F(MpiCommand, RanksResumeFromSecondCopies) {
  const Words copies{"--set", "train.checkpoint.copy=\"" + directory.path() + "/copies\"", "--set",
                     "schedule.shard.id.over=4"};
  const auto whole = one(train("whole", {"--set", "schedule.shard.id.over=4"}));
  ASSERT_EQ(whole.exit, 0) << whole.err;
  const auto first = ranks(3, train("run", copies + Words{"--steps", "30"}));
  ASSERT_EQ(first.exit, 0) << first.err;
  ASSERT_FALSE(values(first.out, "copy", "step").empty());
  EXPECT_EQ(values(first.out, "copy", "step").back(), 30);
  fs::remove_all(directory.path() + "/run");
  const auto rest = ranks(2, train("run", copies));
  ASSERT_EQ(rest.exit, 0) << rest.err;
  EXPECT_EQ(values(rest.out, "resume", "step"), std::vector<nlohmann::json>{30});
  EXPECT_EQ(values(rest.out, "warn", "code").at(0), "XG0721");
  EXPECT_EQ(values(rest.out, "end", "weights"), values(whole.out, "end", "weights"));
  expect_refused(
      ranks(2, train("other", {"--set", "train.checkpoint.copy=\"" + directory.path() + "/other/ckpt/quick/copies\""})),
      1, "XG0720");
}

TEST_F(MpiCommand, RanksBuildTheGraphOfNearestClassesTogether) {
  directory.write("near.xgraph", R"(xgraph 1
model near {
  input x: f32[N, 12]
  feature = x -> linear(16)
  output feature
  head id = cosine_classifier(feature, 500)
}
data d {
  source train = synthetic([12], 500, 6400)
  x = pixels
}
train t {
  batch          = 64
  steps          = 64
  loss           = softmax_ce(id, label, scale=16)
  active_classes = knn(neighbours=8, active=50%, rebuild=20 steps)
  optimizer      = sgd(momentum=0.9)
  lr             = 0.5
}
)");
  const auto words = [](const std::string& where, const Words& more = {}) {
    return Words{"train", "near.xgraph", "--devices", "2",     "--deterministic",         "--progress",
                 "json",  "-C",          where,       "--set", "schedule.shard.id.over=2"} +
           more;
  };
  const auto whole = one(words("whole"));
  ASSERT_EQ(whole.exit, 0) << whole.err;
  ASSERT_GE(values(whole.out, "graph", "of_step").size(), 2U);
  // The run is stopped after the build of a graph began and before the graph is used.
  ASSERT_EQ(ranks(2, words("two", {"--steps", "41"})).exit, 0);
  const auto two = ranks(2, words("two"));
  ASSERT_EQ(two.exit, 0) << two.err;
  EXPECT_EQ(values(two.out, "end", "weights"), values(whole.out, "end", "weights"));
  const auto again = ranks(2, words("again"));
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(values(again.out, "end", "weights"), values(whole.out, "end", "weights"));
  EXPECT_EQ(values(again.out, "graph", "step"), values(whole.out, "graph", "step"));
}

// Each rank's process is first a shell. On rank 1 the shell also starts `of_rank_1`, which acts on the process a little
// later.
std::string script(const std::string& of_rank_1, const std::string& command) {
  return "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then " + of_rank_1 + " fi; exec " + command;
}

TEST_F(MpiCommand, ASignalToOneRankEndsAllWithACheckpoint) {
  const std::string command =
      fmt::format("{} train tiny.xgraph --devices 2 --deterministic --progress plain --set train.epochs=100000", kXrun);
  const auto result =
      mpirun({"-n", "2", "sh", "-c",
              script("(until [ -e ckpt/quick/latest ]; do sleep 0.05; done; kill -TERM $$) &", command)});
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit, 75) << result.err;
  EXPECT_EQ(count(result.out + result.err, " end step="), 1) << result.err;
  EXPECT_THAT(result.out + result.err, HasSubstr("exit=75"));
  EXPECT_THAT(result.err, Not(HasSubstr("error[")));
  // One process resumes the saved run.
  const auto more = one({"train", "tiny.xgraph", "--devices", "2", "--deterministic", "--progress", "json", "--set",
                         "train.epochs=100000", "--steps", "1"});
  EXPECT_EQ(more.exit, 0) << more.err;
  EXPECT_EQ(values(more.out, "resume", "step").size(), 1U);
}

TEST_F(MpiCommand, AKilledRankCostsTheStepsSinceTheLastCheckpoint) {
  const auto whole = one(train("whole", {"--set", "train.epochs=20"}));
  ASSERT_EQ(whole.exit, 0) << whole.err;
  std::string command = kXrun;
  for (const std::string& word : train("killed", {"--set", "train.epochs=20"})) {
    command += " " + word;
  }
  CommandOptions watch = options();
  watch.binary.clear();
  const auto result = run_xrun(
      {"train", "--restarts", "2", "--", kMpirun, "--oversubscribe", "--bind-to", "none", "-n", "2", "sh", "-c",
       script(
           "if mkdir once 2> /dev/null; then (until [ -e killed/ckpt/quick/latest ]; do sleep 0.02; done; kill -KILL "
           "$$) & fi;",
           command)},
      watch);
  EXPECT_FALSE(result.timed_out);
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(values(result.out, "resume", "step").size(), 1U);
  const auto ends = values(result.out, "end", "weights");
  ASSERT_FALSE(ends.empty());
  EXPECT_EQ(ends.back(), values(whole.out, "end", "weights").back());
}

// Rank 0, which prints the message about the lost rank, is computing for some tenths of a second when rank 1 dies. Rank
// 2 waits for messages and notices it at once. If rank 2 ended at once, `mpirun` would kill rank 0 before it prints.
TEST_F(MpiCommand, ALostRankIsReportedEvenIfTheReportingRankIsBusy) {
  directory.write("wide.xgraph", R"(xgraph 1
model wide {
  input x: f32[N, 1024]
  feature = x -> linear(8192) -> linear(16) -> linear(16)
  output feature
  head id = classifier(feature, 64)
}
data d {
  source train = synthetic([1024], 64, 6400)
  x = pixels
}
train t {
  batch     = 2048
  steps     = 100
  loss      = softmax_ce(id, label)
  optimizer = sgd
  lr        = 0.01
  log { every = 1 steps }
}
)");
  const std::string kill = "(until grep -qs '\"t\":\"step\"' ckpt/t/log.jsonl; do sleep 0.01; done; kill -KILL $$) &";
  const std::string command = kXrun + " train wide.xgraph --devices 3 --progress json --set schedule.stages=3";
  const auto result = mpirun({"-n", "3", "sh", "-c", script(kill, command)});
  EXPECT_FALSE(result.timed_out);
  EXPECT_THAT(result.err, ::testing::ContainsRegex("error\\[XG0840\\]: rank 1 on [^\n]* is lost: its connection"));
}

// A rank that hangs sends nothing and closes no connection. The others name it and end with the last checkpoint;
// `--restarts` resumes from there.
TEST_F(StoppedRanks, AFrozenRankEndsTheOthers) {
  const auto whole = one(train("whole", {"--set", "train.epochs=20"}));
  ASSERT_EQ(whole.exit, 0) << whole.err;
  std::string command = kXrun;
  for (const std::string& word : train("frozen", {"--set", "train.epochs=20"})) {
    command += " " + word;
  }
  CommandOptions restarts = options();
  restarts.binary.clear();
  const std::string stop =
      "if mkdir once 2> /dev/null; then (until [ -e frozen/ckpt/quick/latest ]; do sleep 0.02; done; kill -STOP $$) & "
      "fi;";
  const auto result = run_xrun({"train", "--restarts", "2", "--", kMpirun, "--oversubscribe", "--bind-to", "none", "-n",
                                "3", "sh", "-c", script(stop, command)},
                               restarts);
  EXPECT_FALSE(result.timed_out);
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.err,
              ::testing::ContainsRegex("error\\[XG0840\\]: rank 1 on [^\n]* is lost: it was silent for 2.5 s"));
  EXPECT_THAT(result.err, HasSubstr("it continues from frozen/ckpt/quick/step-"));
  EXPECT_EQ(values(result.out, "end", "exit"), (std::vector<nlohmann::json>{75, 0}));
  EXPECT_EQ(values(result.out, "end", "weights").back(), values(whole.out, "end", "weights").back());
}

// Rank 0 is frozen when the run is over and MPI waits for all ranks to end. The freeze may come too late, and then no
// rank has waited for it. So rank 0 wakes again, and the test makes another attempt.
TEST_F(StoppedRanks, ARankThatIsFrozenAtTheEndDoesNotBlockTheOthers) {
  const std::string command = fmt::format("{} train tiny.xgraph --devices 2 --progress plain --resume never", kXrun);
  const std::string freeze =
      "if [ $OMPI_COMM_WORLD_RANK = 0 ]; then (until grep -qs '\"t\":\"end\"' ckpt/quick/log.jsonl; do :; done; "
      "kill -STOP $$; sleep 15; kill -CONT $$) > /dev/null 2>&1 & fi; exec ";
  CommandResult result;
  for (int attempt = 0; attempt < 5 && result.exit != 75; ++attempt) {
    fs::remove_all(fs::path(directory.path()) / "ckpt");
    result = mpirun({"-n", "2", "sh", "-c", freeze + command});
    ASSERT_FALSE(result.timed_out) << result.err;
    EXPECT_EQ(count(result.err, " end step="), 1) << result.err;
  }
  EXPECT_EQ(result.exit, 75) << result.err;
  EXPECT_THAT(result.err, HasSubstr("error[XG0840]: rank 0 on "));
}

// Rank 1 is stopped for a second, three times, which slows the whole run down. No rank may be declared lost.
TEST_F(StoppedRanks, RanksThatAreStoppedForASecondAreNotLost) {
  const std::string pauses =
      "(for i in 1 2 3; do sleep 0.3; kill -STOP $$ 2> /dev/null || exit; sleep 1; kill -CONT $$; done) &";
  std::string command = kXrun;
  for (const std::string& word : train("slow", {"--set", "train.epochs=40"})) {
    command += " " + word;
  }
  const auto result = mpirun({"-n", "2", "sh", "-c", script(pauses, command)});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("XG084")));
}

// Rank 1 is stopped for three quarters of the time, in intervals that are shorter than a step.
TEST_F(StoppedRanks, ASlowRankIsNamed) {
  directory.write("heavy.xgraph", heavy_model(40));
  const std::string turns = "(while kill -STOP $$ 2> /dev/null; do sleep 0.03; kill -CONT $$; sleep 0.01; done) & ";
  const std::string command = kXrun +
                              " train heavy.xgraph --devices 2 --progress json --set schedule.stages=1 "
                              "--set schedule.replicas=2";
  const auto slow = mpirun({"-n", "2", "sh", "-c", script(turns, command)});
  ASSERT_EQ(slow.exit, 0) << slow.err;
  std::string told;
  for (const auto& message : values(slow.out, "warn", "message")) {
    told += message.is_string() ? message.get<std::string>() + "\n" : "";
  }
  EXPECT_THAT(told, ::testing::ContainsRegex("cpu 1 of rank 1 on [^\n]* takes [0-9.]+ times as long"));
  EXPECT_THAT(told, Not(HasSubstr("of rank 0")));
}

TEST_F(MpiCommand, RanksWithAnotherCommandAreRefused) {
  auto result = pair(train("a"), train("a", {"--steps", "5"}));
  expect_refused(result, 1, "XG0833");
  EXPECT_THAT(result.err, HasSubstr("was started with another command than rank 0"));
  EXPECT_THAT(result.err, HasSubstr("--steps: none on rank 0, 5 on rank 1"));
  std::string other = model();
  other.replace(other.find("1e-2"), 4, "2e-2");
  directory.write("other.xgraph", other);
  Words words = train("a");
  words[1] = "other.xgraph";
  result = pair(train("a"), words);
  expect_refused(result, 1, "XG0833");
  EXPECT_THAT(result.err, HasSubstr("the file: "));
  EXPECT_FALSE(fs::exists(fs::path(directory.path()) / "a/ckpt"));
}

TEST_F(MpiCommand, RanksWithAnotherPlanAreRefusedWithADiff) {
  ASSERT_EQ(one({"plan", "tiny.xgraph", "--devices", "2", "-o", "a.xplan"}).exit, 0);
  ASSERT_EQ(one({"plan", "tiny.xgraph", "--devices", "2", "--set", "schedule.stages=2", "-o", "b.xplan"}).exit, 0);
  const auto result = pair({"train", "a.xplan"}, {"train", "b.xplan"});
  expect_refused(result, 1, "XG0833");
  EXPECT_THAT(result.err, HasSubstr("stages: 1 on rank 0, 2 here"));
  EXPECT_EQ(ranks(2, {"train", "a.xplan"}).exit, 0);
}

// Each rank has its own working directory with the model, as if the ranks were on hosts with disks of their own.
TEST_F(MpiCommand, RanksWithOtherDataAreRefused) {
  const std::string table_model = R"(xgraph 1
model m {
  input x: f32[N, 1]
  head id = x -> linear(4) -> classifier(2)
}
data d {
  source train = csv("rows.csv", header=true)
  x     = columns(0..1)
  label = column(1) -> as_index(2)
}
train t {
  batch     = 4
  steps     = 4
  loss      = softmax_ce(id, label)
  optimizer = sgd
  lr        = 0.1
}
)";
  std::string rows = "number,kind\n";
  for (int i = 0; i < 40; ++i) {
    rows += fmt::format("{},{}\n", i % 7, i % 2);
  }
  std::string changed = rows;
  changed.replace(changed.rfind("4,1\n"), 1, "9");
  for (const char* host : {"a", "b"}) {
    directory.write(std::string(host) + "/m.xgraph", table_model);
    directory.write(std::string(host) + "/rows.csv", rows);
  }
  const auto run = [&] {
    const Words words{kXrun,
                      "train",
                      "/proc/self/cwd/m.xgraph",
                      "--devices",
                      "2",
                      "--set",
                      "schedule.stages=1",
                      "-C",
                      directory.path() + "/out"};
    return mpirun(Words{"-wdir", directory.path() + "/a", "-n", "1"} + words +
                  Words{":", "-wdir", directory.path() + "/b", "-n", "1"} + words);
  };
  auto result = run();
  ASSERT_EQ(result.exit, 0) << result.err;
  directory.write("b/rows.csv", changed);
  result = run();
  expect_refused(result, 1, "XG0833");
  EXPECT_THAT(result.err, HasSubstr("reads other data than rank 0"));
  EXPECT_THAT(result.err, HasSubstr("contents of the source `train`: "));
  directory.write("b/rows.csv", rows + "1,1\n");
  result = run();
  expect_refused(result, 1, "XG0833");
  EXPECT_THAT(result.err, HasSubstr("samples of the source `train`: 40 on rank 0, 41 on rank 1"));
  fs::remove(fs::path(directory.path()) / "b/rows.csv");
  result = run();
  expect_refused(result, 1, "XG0401");
}

TEST_F(MpiCommand, RanksWithOtherDirectoriesAreRefused) {
  const auto result = pair(train("a"), train("b"));
  expect_refused(result, 4, "XG0711");
  EXPECT_THAT(result.err, HasSubstr("is not the directory that rank 0 on "));
}

TEST_F(MpiCommand, WrongCommandLinesAreReportedOnce) {
  expect_refused(ranks(3, {"train", "tiny.xgraph", "--devices", "2"}), 2, "XG0832");
  const auto missing = ranks(2, {"train", "none.xgraph"});
  EXPECT_EQ(missing.exit, 1) << missing.err;
  EXPECT_EQ(count(missing.err, "none.xgraph"), 1) << missing.err;
}

// The benchmark itself checks the results of its collectives.
TEST_F(MpiCommand, CollectivesAreMeasuredBetweenRanks) {
  for (const bool messages : {false, true}) {
    Words words{"bench", "comm", "--mib", "3", "--rounds", "3", "--format", "json"};
    if (messages) {
      words.emplace_back("--messages");
    }
    const auto result = ranks(2, words);
    ASSERT_EQ(result.exit, 0) << result.err;
    const auto report = nlohmann::json::parse(result.out);
    EXPECT_EQ(report["ranks"], 2);
    EXPECT_LE(report["direct_ranks"], messages ? 0 : 1);
    for (const char* name : {"all_gather", "reduce_scatter"}) {
      EXPECT_GT(report[name]["bytes_per_s"], 0) << name;
      EXPECT_EQ(report[name]["seconds"].size(), 3U) << name;
    }
  }
  const auto none = ranks(2, {"bench", "comm", "--mib", "0"});
  EXPECT_EQ(none.exit, 2) << none.err;
  EXPECT_EQ(count(none.err, "`--mib 0` is not a number from 1 to 65 536"), 1) << none.err;
  const auto large = ranks(2, {"bench", "comm", "--mib", "60000"});
  EXPECT_EQ(large.exit, 2) << large.err;
  EXPECT_EQ(count(large.err, "`--mib 60000` needs 468.8 GiB of memory, "), 1) << large.err;
}

TEST_F(MpiCommand, AProcessWithoutALauncherLoadsNoMpi) {
  const auto alone = run_xrun(train("alone", {"--steps", "1"}),
                              {.directory = directory.path(), .environment = {{"LD_DEBUG", "files"}}});
  ASSERT_EQ(alone.exit, 0);
  EXPECT_THAT(alone.err, HasSubstr("libtbb"));
  EXPECT_THAT(alone.err, Not(HasSubstr("libmpi")));
}

}  // namespace
}  // namespace xrun::testing
