// Runs on several hosts, which are network namespaces with links of their own. They must have the weights of one
// process, also when a link is down for a while.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "tests/support/heavy_model.h"
#include "tests/support/hosts/launchers.h"
#include "tests/support/hosts/network_hosts.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

const std::string kXrun = std::string(XRUN_BINARY_DIR) + "/xrun";

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Returns the digest of the weights at the end of the last start.
std::string weights(const std::string& events) {
  std::string last;
  std::string line;
  for (std::istringstream in(events); std::getline(in, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.value("t", "") == "end") {
      last = event.value("weights", "");
    }
  }
  return last;
}

class Hosts : public ::testing::Test {
 protected:
  static constexpr int kCount = 4;

  void SetUp() override {
    if (!fs::exists("/usr/bin/mpirun") || !fs::exists(fs::path(XRUN_BINARY_DIR) / "libxrun_mpi.so")) {
      GTEST_SKIP() << "no Open MPI (openmpi-bin, libopenmpi-dev): runs on several hosts are not tested";
    }
    hosts.emplace(kCount);
    if (!hosts->missing().empty()) {
      GTEST_SKIP() << hosts->missing() << ": runs on several hosts are not tested";
    }
    std::string text = tiny_model();
    text.erase(text.find("test \"size\""));
    directory.write("tiny.xgraph", text.replace(text.find("int = 37"), 8, "int = 1280"));
  }

  Words train(const std::string& to, const Words& more = {}) const {
    return Words{"train", "tiny.xgraph", "--devices", "4", "--deterministic", "--progress", "json", "-C", to} + more;
  }
  CommandResult one(const Words& words) const { return run_xrun(words, {.directory = directory.path()}); }
  CommandResult all(const Words& words) const { return all(hosts->mpirun(), words); }
  CommandResult all(const Words& launcher, const Words& words) const {
    const Words command = launcher + Words{kXrun} + words;
    return run_xrun({command.begin() + 1, command.end()}, {.binary = command[0], .directory = directory.path()});
  }

  // Takes down the link of a host for some time after the run has saved.
  template <typename Run>
  CommandResult with_link_away(int host, double seconds, const std::string& saved, const Run& run) const {
    std::atomic<bool> ended{false};
    std::thread cutter([&] {
      while (!fs::exists(fs::path(directory.path()) / saved) && !ended.load()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      NetworkHosts::act({"cut", hosts->host(host)});
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      NetworkHosts::act({"mend", hosts->host(host)});
    });
    const CommandResult result = run();
    ended = true;
    cutter.join();
    return result;
  }

  std::optional<NetworkHosts> hosts;
  TemporaryDirectory directory;
};

// Hosts whose links are down, cut off or slow; these tests wait for most of their time.
class SlowHosts : public Hosts {};

TEST_F(Hosts, HaveTheWeightsOfOneProcess) {
  const std::vector<Words> choices{
      {},
      {"--set", "schedule.stages=2", "--set", "schedule.shard.id.over=4"},
      {"--set", "schedule.stages=4", "--set", "train.precision=mixed(bf16)"},
      {"--set", "schedule.replicas=4", "--set", "train.precision=mixed(bf16)", "--set", "schedule.shard.id.over=3"},
  };
  for (size_t i = 0; i < choices.size(); ++i) {
    const auto whole = one(train("one" + std::to_string(i), choices[i]));
    ASSERT_EQ(whole.exit, 0) << whole.err;
    const auto result = all(train("all" + std::to_string(i), choices[i]));
    ASSERT_EQ(result.exit, 0) << result.err;
    EXPECT_FALSE(weights(whole.out).empty());
    EXPECT_EQ(weights(result.out), weights(whole.out)) << "choice " << i;
  }
}

TEST_F(Hosts, HaveTheWeightsOfOneProcessByMpich) {
  if (const std::string missing = mpich().missing(); !missing.empty()) {
    GTEST_SKIP() << missing << ": MPICH is not tested on several hosts";
  }
  const Words plan{"--set", "schedule.replicas=2", "--set", "schedule.stages=2"};
  const auto whole = one(train("one", plan));
  ASSERT_EQ(whole.exit, 0) << whole.err;
  const auto result = all(hosts->mpich(), train("mpich", plan));
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_FALSE(weights(whole.out).empty());
  EXPECT_EQ(weights(result.out), weights(whole.out));
}

// The first two hosts have two replicas each, and sum the gradients of their own two before they exchange them. All
// hosts have shards of the head, and sum their gradients of features before they send them.
TEST_F(Hosts, SumTheirOwnReplicasFirstWithTheSameBits) {
  for (const char* precision : {"f32", "mixed(bf16)"}) {
    const Words words{"train",
                      "tiny.xgraph",
                      "--devices",
                      "8",
                      "--deterministic",
                      "--progress",
                      "json",
                      "--set",
                      "schedule.stages=1",
                      "--set",
                      "schedule.replicas=4",
                      "--set",
                      "schedule.shard.id.over=8",
                      "--set",
                      std::string("train.precision=") + precision};
    const auto whole = one(words + Words{"-C", std::string("one ") + precision});
    ASSERT_EQ(whole.exit, 0) << whole.err;
    const auto result = all(words + Words{"-C", std::string("all ") + precision});
    ASSERT_EQ(result.exit, 0) << result.err;
    EXPECT_FALSE(weights(whole.out).empty());
    EXPECT_EQ(weights(result.out), weights(whole.out)) << precision;
  }
  const auto plan = all({"plan", "tiny.xgraph", "--devices", "8", "--deterministic", "--set", "schedule.stages=1",
                         "--set", "schedule.replicas=4", "--set", "schedule.shard.id.over=8", "-o", "hosts.xplan"});
  ASSERT_EQ(plan.exit, 0) << plan.err;
  const std::string program = one({"show", "hosts.xplan", "--emit", "program"}).out;
  EXPECT_THAT(program.substr(0, program.find('\n')), HasSubstr("replicas 4, 2 a node"));
  EXPECT_THAT(program, HasSubstr("sum-dx"));
}

// Each host has two devices, so data for both crosses the network once. The plan is made for the hosts of the ranks,
// and its predicted bytes equal those that the run counts.
TEST_F(SlowHosts, APlanPredictsTheBytesThatCrossTheNetwork) {
  const std::vector<Words> choices{
      {"--set", "schedule.stages=2", "--set", "schedule.replicas=4"},
      {"--set", "schedule.stages=4", "--set", "schedule.micro_batches=4", "--set", "schedule.shard.id.over=5"},
      {"--set", "schedule.stages=1", "--set", "schedule.replicas=4"},
      {"--set", "schedule.replicas=4", "--set", "train.compress=topk(1%)", "--set",
       "train.optimizer=sgd(momentum=0.9)"},
      {"--set", "schedule.stages=1", "--set", "schedule.replicas=4", "--set", "train.compress=topk(1%, per_node=true)",
       "--set", "train.optimizer=sgd(momentum=0.9)"},
  };
  for (size_t i = 0; i < choices.size(); ++i) {
    SCOPED_TRACE("choice " + std::to_string(i));
    // There are no metrics, because an evaluation would also send data.
    const Words base = Words{"tiny.xgraph", "--devices", "8", "--set", "train.metrics=[]"} + choices[i];
    const Words planned = Words{"plan"} + base + Words{"--dry-run", "--format", "json"};
    const auto plan = all(planned);
    ASSERT_EQ(plan.exit, 0) << plan.err;
    const auto json = nlohmann::json::parse(plan.out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << "one rank prints: " << plan.out;
    EXPECT_EQ(json["cluster"]["nodes"], kCount);
    EXPECT_EQ(json["cluster"]["network"]["name"], "measured");
    EXPECT_GT(json["cluster"]["network"]["bytes_per_second"], 1e6);
    std::vector<int64_t> sent;
    for (const auto& link : json["network"]["links"]) {
      sent.push_back(link["sent_bytes"]);
    }
    const Words trained =
        Words{"train"} + base + Words{"--progress", "json", "-C", "counted" + std::to_string(i), "--steps", "20"};
    const auto run = all(trained);
    ASSERT_EQ(run.exit, 0) << run.err;
    std::vector<int64_t> counted;
    std::string line;
    for (std::istringstream in(run.out); std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line, nullptr, false);
      if (event.is_object() && event.value("t", "") == "end") {
        counted = event["host_sent"].get<std::vector<int64_t>>();
      }
    }
    ASSERT_EQ(counted.size(), sent.size());
    EXPECT_GT(std::ranges::max(sent), 0);
    for (size_t host = 0; host < sent.size(); ++host) {
      EXPECT_EQ(counted[host], sent[host]) << host;
    }
  }
}

const Words kLong{"--set", "train.epochs=25", "--set", "train.checkpoint.every=50 steps"};

// The times of a step are those of rank 0's devices. Time in which data crosses a slow link counts as communication and
// not as idle time.
TEST_F(Hosts, TransferOverASlowLinkCountsAsCommunicationTime) {
  for (int host = 0; host < kCount; ++host) {
    const auto limited = NetworkHosts::act({"rate", hosts->host(host), "40mbit"});
    ASSERT_EQ(limited.exit, 0) << limited.err;
  }
  directory.write("heavy.xgraph", heavy_model(1'000'000, "  log { every = 1 steps }\n"));
  const auto result = all({"train", "heavy.xgraph", "--devices", "4", "--set", "schedule.stages=1", "--set",
                           "schedule.replicas=4", "--progress", "json", "--steps", "3", "--profile", "1"});
  ASSERT_EQ(result.exit, 0) << result.err;
  int steps = 0;
  size_t rows = 0;
  std::string line;
  for (std::istringstream in(result.out); std::getline(in, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.value("t", "") == "step") {
      ++steps;
      ASSERT_EQ(event.at("busy_s").size(), 1u);
      const double step = event.at("step_s");
      const double busy = event.at("busy_s")[0];
      const double bubble = event.at("bubble_s")[0];
      EXPECT_GT(busy, 0);
      EXPECT_GT(event.at("comm_s").get<double>(), step / 4) << "of " << step << " s";
      EXPECT_LT(busy + event.at("comm_s").get<double>() + bubble, step * 1.001);
    } else if (event.value("t", "") == "profile") {
      rows = event.at("rows").size();
      for (const auto& row : event.at("rows")) {
        EXPECT_EQ(row.at("device"), 0) << "rank 0 knows nothing of the devices of others";
      }
    }
  }
  EXPECT_EQ(steps, 3);
  EXPECT_GT(rows, 5u);
}

// At the path of second copies, each host has a directory of its own. When the shared directory is lost, the run
// resumes from these copies.
TEST_F(Hosts, ResumeFromSecondCopiesOnTheirOwnDisks) {
  const std::string at = directory.path() + "/copies";
  fs::create_directories(at);
  for (int host = 0; host < kCount; ++host) {
    fs::create_directories(directory.path() + "/disk" + std::to_string(host));
  }
  const Words plan{"--set", "schedule.replicas=2", "--set", "schedule.shard.id.over=4"};
  const auto run = [&](const Words& more) {
    std::string command = kXrun;
    for (const std::string& word : train("run", plan + Words{"--set", "train.checkpoint.copy=\"" + at + "\""} + more)) {
      command += " '" + word + "'";
    }
    const std::string mount =
        "mount --bind " + directory.path() + "/disk$OMPI_COMM_WORLD_RANK " + at + " && exec " + command;
    const Words words = hosts->mpirun() + Words{"unshare", "-m", "sh", "-c", mount};
    return run_xrun({words.begin() + 1, words.end()}, {.binary = words[0], .directory = directory.path()});
  };
  const auto whole = one(train("whole", plan));
  ASSERT_EQ(whole.exit, 0) << whole.err;
  const auto first = run({"--steps", "30"});
  ASSERT_EQ(first.exit, 0) << first.err;
  EXPECT_TRUE(fs::is_empty(at)) << "the copies are on the disks of the hosts";
  for (int host = 0; host < kCount; ++host) {
    EXPECT_FALSE(fs::is_empty(directory.path() + "/disk" + std::to_string(host))) << host;
  }
  fs::remove_all(directory.path() + "/run");
  const auto rest = run({});
  ASSERT_EQ(rest.exit, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("XG0721"));
  EXPECT_THAT(rest.out, HasSubstr("\"t\":\"resume\""));
  EXPECT_EQ(weights(rest.out), weights(whole.out));
}

TEST_F(SlowHosts, ALinkThatIsDownForHalfASecondIsWaitedFor) {
  const auto result = with_link_away(2, 0.5, "away/ckpt/quick/latest", [&] { return all(train("away", kLong)); });
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("XG0840")));
}

TEST_F(SlowHosts, AHostThatIsCutOffIsNamedAndTheRunResumesOnceItIsBack) {
  const auto whole = one(train("whole", kLong));
  ASSERT_EQ(whole.exit, 0) << whole.err;
  const Words command = Words{"train", "--restarts", "20", "--"} + hosts->mpirun() + Words{kXrun} + train("cut", kLong);
  const auto result = with_link_away(2, 12, "cut/ckpt/quick/latest", [&] { return one(command); });
  EXPECT_FALSE(result.timed_out);
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("error[XG0840]: rank 2 on " + hosts->host(2) + " is lost: it was silent for 2.5 s"));
  EXPECT_THAT(result.err, HasSubstr("help: start the same command again: it continues from cut/ckpt/quick/step-"));
  EXPECT_EQ(weights(result.out), weights(whole.out));
}

}  // namespace
}  // namespace xrun::testing
