// Recorded bits (docs/internals/determinism.md): deterministic runs of the command must end with the weights that
// tests/golden/bits.json holds for this kind of processor and oneDNN. That file has two parts. Each of the `groups` has
// a model, its settings, and plans that must all give the same bits. `digests` has the `weights` of the `end` event by
// machine, group and instruction set. A run is one plan of a group on one instruction set.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using Json = nlohmann::ordered_json;

const std::string kTree = XRUN_SOURCE_DIR;
const std::string kFile = kTree + "/tests/golden/bits.json";

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && std::string(value) == "1";
}

CommandResult run_command(const std::vector<std::string>& words, const std::string& isa = "") {
  const char* binary = std::getenv("XRUN_BINARY");
  CommandOptions options;
  if (binary != nullptr) {
    options.binary = std::filesystem::absolute(binary).string();
  }
  if (!isa.empty()) {
    options.environment.emplace_back("XRUN_ISA", isa);
  }
  return run_xrun(words, options);
}

// Returns, for example, "AuthenticAMD 25/17, oneDNN 2.6.3": vendor, family and model as the kernel reports them, and
// the version of the library that the command has loaded.
std::string machine_kind(const Json& doctor) {
  std::map<std::string, std::string> cpu;
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line) && !line.empty();) {
    const size_t colon = line.find(':');
    cpu[line.substr(0, line.find_first_of("\t:"))] = colon + 2 < line.size() ? line.substr(colon + 2) : "";
  }
  return fmt::format("{} {}/{}, oneDNN {}", cpu["vendor_id"], cpu["cpu family"], cpu["model"],
                     doctor.at("libraries").at("onednn").get<std::string>());
}

// Returns the instruction sets up to the best one of this processor, which also has all earlier ones.
std::vector<std::string> instruction_sets(const Json& doctor) {
  std::vector<std::string> names;
  for (const char* name : {"avx2", "avx512", "avx512_bf16", "amx"}) {
    names.emplace_back(name);
    if (doctor.at("isa") == name) {
      break;
    }
  }
  return names;
}

// Converts "devices=2 stages=2 shards=3" to flags. Devices and threads are flags of the command, shards and granularity
// are set for `head`, and all other keys belong to the schedule.
std::vector<std::string> plan_flags(const std::string& plan, const std::string& head) {
  std::vector<std::string> words;
  std::istringstream in(plan);
  for (std::string setting; in >> setting;) {
    const std::string key = setting.substr(0, setting.find('='));
    const std::string value = setting.substr(key.size() + 1);
    if (key == "devices" || key == "threads") {
      words.insert(words.end(), {"--" + key, value});
      continue;
    }
    const std::string path = key == "shards"        ? "shard." + head + ".over"
                             : key == "granularity" ? "shard." + head + ".granularity"
                                                    : key;
    words.insert(words.end(), {"--set", "schedule." + path + "=" + value});
  }
  return words;
}

struct Outcome {
  std::string weights;
  std::string plan_id;
  std::string lacks;  // the message of a run whose data or font is missing on this machine
};

Outcome train(const Json& group, const std::string& plan, const std::string& isa) {
  std::vector<std::string> words{"train",          kTree + "/" + group.at("model").get<std::string>(),
                                 "--steps",        std::to_string(group.at("steps").get<int>()),
                                 "--progress",     "json",
                                 "--deterministic"};
  for (const Json& setting : group.at("settings")) {
    words.insert(words.end(), {"--set", setting.get<std::string>()});
  }
  if (group.contains("shared")) {
    const char* shared = std::getenv("XRUN_SHARED_DIR");
    const std::string root = (shared != nullptr ? std::string(shared) : kTree + "/../shared/data") + "/" +
                             group.at("shared").get<std::string>();
    words.insert(words.end(), {"--set", "root=\"" + root + "\""});
  }
  for (const std::string& word : plan_flags(plan, group.value("head", ""))) {
    words.push_back(word);
  }
  const CommandResult result = run_command(words, isa);
  Outcome outcome;
  if (result.err.find("XG0401") != std::string::npos || result.err.find("XG0411") != std::string::npos) {
    outcome.lacks = result.err;
    return outcome;
  }
  EXPECT_EQ(result.exit, 0) << result.err;
  std::string line;
  for (std::istringstream in(result.out); std::getline(in, line);) {
    const Json event = Json::parse(line);
    if (event.at("t") == "plan") {
      outcome.plan_id = event.at("plan");
    } else if (event.at("t") == "end") {
      outcome.weights = event.at("weights");
    }
  }
  return outcome;
}

// Reads the golden file. If it cannot be read, there are no groups and BitsFile fails, because the list of tests is
// made before any test runs.
Json read_record() {
  std::ifstream in(kFile);
  Json file = Json::parse(in, nullptr, false);
  return file.is_object() ? file : Json{{"groups", Json::object()}, {"digests", Json::object()}};
}

// Replaces the digests of a group on one machine, and keeps those of other machines.
void record(const std::string& machine, const std::string& group, const Json& digests) {
  Json file = read_record();
  file["digests"][machine][group] = digests;
  std::ofstream out(kFile, std::ios::binary | std::ios::trunc);
  out << file.dump(2) << "\n";
  ASSERT_TRUE(out.good()) << "cannot write " << kFile;
}

std::vector<std::string> group_names() {
  std::vector<std::string> names;
  const Json file = read_record();
  for (const auto& [name, group] : file.at("groups").items()) {
    names.push_back(name);
  }
  return names;
}

class Bits : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const CommandResult result = run_command({"doctor", "--format", "json"});
    ASSERT_EQ(result.exit, 0) << result.err;
    const Json doctor = Json::parse(result.out);
    machine = machine_kind(doctor);
    isas = instruction_sets(doctor);
    file = read_record();
    group = file.at("groups").at(GetParam());
    plans = group.at("plans").get<std::vector<std::string>>();
  }

  // Keeps one instruction set and one plan. Over all groups, each instruction set has plans at each place of the lists.
  void keep_one_run() {
    const std::vector<std::string> names = group_names();
    const auto index = static_cast<size_t>(std::ranges::find(names, GetParam()) - names.begin());
    plans = {plans[index / isas.size() % plans.size()]};
    isas = {isas[index % isas.size()]};
  }

  // Trains with each plan and expects the same weights. Returns the outcome of the first plan, or of one whose data is
  // missing.
  Outcome train_all(const std::string& isa) {
    Outcome first;
    std::set<std::string> plan_ids;
    for (const std::string& plan : plans) {
      const Outcome outcome = train(group, plan, isa);
      if (!outcome.lacks.empty()) {
        return outcome;
      }
      EXPECT_TRUE(plan_ids.insert(outcome.plan_id).second) << "`" << plan << "` is the plan of an earlier line, too";
      first = first.weights.empty() ? outcome : first;
      EXPECT_EQ(outcome.weights, first.weights) << isa << ", `" << plan << "` differs from `" << plans[0] << "`";
    }
    return first;
  }

  std::string machine;
  std::vector<std::string> isas;
  Json file;
  Json group;
  std::vector<std::string> plans;
};

TEST_P(Bits, ADeterministicRunEndsWithTheRecordedWeights) {
  const bool recording = is_set("XRUN_UPDATE_GOLDENS");
  const Json recorded = file.at("digests").value(machine, Json::object()).value(GetParam(), Json::object());
  if (!recording && recorded.empty()) {
    GTEST_SKIP() << "no bits of this group are recorded for " << machine
                 << "; record them with the binary of a commit that is known to be right: XRUN_UPDATE_GOLDENS=1 "
                    "XRUN_BINARY=/path/to/xrun build/release/xrun_runtime_test --gtest_filter='Bits*' "
                    "(docs/internals/determinism.md, Recorded bits)";
  }
  if (!recording && std::getenv("XRUN_ALL_PLANS") == nullptr) {
    keep_one_run();
  }
  Json digests;
  for (const std::string& isa : isas) {
    const Outcome outcome = train_all(isa);
    if (!outcome.lacks.empty()) {
      GTEST_SKIP() << outcome.lacks;
    }
    digests[isa] = outcome.weights;
    if (!recording) {
      EXPECT_EQ(outcome.weights, recorded.value(isa, "")) << machine << ", " << isa << ", `" << plans[0] << "`";
    }
  }
  if (recording && !HasFailure()) {
    record(machine, GetParam(), digests);
  }
}

INSTANTIATE_TEST_SUITE_P(, Bits, ::testing::ValuesIn(group_names()), [](const auto& one) { return one.param; });

TEST(BitsFile, HasAtLeastSixtyRunsAndNoDigestWithoutAGroup) {
  const Json file = read_record();
  size_t plans = 0;
  for (const auto& [name, group] : file.at("groups").items()) {
    plans += group.at("plans").size();
  }
  EXPECT_GE(3 * plans, 60u) << "by three instruction sets";
  for (const auto& [machine, digests] : file.at("digests").items()) {
    for (const auto& [name, digest] : digests.items()) {
      EXPECT_TRUE(file.at("groups").contains(name)) << machine << " has digests of `" << name << "`, which is no group";
    }
  }
}

}  // namespace
}  // namespace xrun::testing
