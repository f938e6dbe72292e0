// No setting of `cluster` and `schedule` is ignored: it reaches the module, or it says that it is not available yet.
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "lang/frontend.h"
#include "lang/lower/settings.h"
#include "lang/print_module.h"
#include "tests/lang/test_ops.h"

namespace xrun::lang {
namespace {

constexpr const char* kText = R"(xgraph 1

model net {
  input x: f32[N, 8]

  feature = x -> linear(4) as embed
  output feature

  head id = cosine_classifier(feature, 100)
}

data items {
  source train = synthetic([8], 100, samples=1000)

  x = pixels
}

train softmax {
  batch     = 128
  epochs    = 1
  loss      = softmax_ce(id, label)
  optimizer = sgd
  lr        = 0.1
}
)";

struct Outcome {
  std::string module;  // as text
  std::vector<std::string> later;
};

Outcome check(const std::vector<std::pair<std::string, std::string>>& sets) {
  static const OpRegistry ops = test_ops::registry();
  SourceMap sources;
  Diagnostics diagnostics;
  const auto file = check_text("test.xgraph", kText, sources, diagnostics, {.ops = &ops, .sets = sets});
  std::string faults;
  for (const Diagnostic& d : diagnostics.all()) {
    faults += render(d, sources);
  }
  EXPECT_TRUE(file.has_value()) << faults;
  Outcome outcome;
  if (file) {
    for (const Diagnostic& d : file->module.not_yet) {
      outcome.later.push_back(d.message);
    }
    // What is not available stands at the end of the text.
    outcome.module = print_module(file->module);
    outcome.module = outcome.module.substr(0, outcome.module.find("not yet: "));
  }
  return outcome;
}

struct Case {
  const char* path;
  const char* value;
  const char* later;  // what is not available yet; null: the module says what was asked for
};

const std::vector<Case> kCases{
    {"cluster.nodes", "2", "a cluster of several nodes"},
    {"cluster.network", "ethernet(25Gbit/s, latency=20us)", "`cluster.network`"},
    {"cluster.node.cpu", "\"epyc\"", nullptr},
    {"cluster.node.cores", "3", nullptr},
    {"cluster.node.memory", "3GiB", nullptr},
    {"cluster.node.storage", "2GB/s", "`node.storage`"},
    {"cluster.node.link", "nvlink(150GB/s)", "`node.link`"},
    {"cluster.node.gpu", "v100_32g", "a `gpu` in a cluster"},
    {"cluster.node.gpus", "8", "a `gpu` in a cluster"},
    {"cluster.reserve", "1GiB", nullptr},
    {"schedule.stages", "2", nullptr},
    {"schedule.micro_batches", "2", nullptr},
    {"schedule.pipeline", "one_f_one_b", nullptr},
    {"schedule.replicas", "2", nullptr},
    {"schedule.recompute", "all", nullptr},
    {"schedule.overlap", "false", nullptr},
    {"schedule.bucket", "1MiB", "`schedule.bucket`"},
    {"schedule.shard.id.over", "3", nullptr},
    {"schedule.shard.id.chunks", "4", "`shard.chunks`"},
    {"schedule.shard.id.granularity", "micro_batch", nullptr},
    {"schedule.pin.embed", "stage(0)", nullptr},
    {"schedule.memory_limit", "1GiB", nullptr},
    {"schedule.search.time", "10s", "`search.time`"},
    {"schedule.search.seed", "3", "`search.seed`"},
};

TEST(Hints, EverySettingOfMachinesAndSchedulesReachesTheModuleOrSaysNotYet) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.path);
    // A group that is there and empty is no difference.
    const std::string path = c.path;
    const bool is_shard = path.find("shard.id") != std::string::npos;
    const Outcome base = is_shard ? check({{"schedule.shard.id.split", "classes"}})
                                  : check({{path.substr(0, path.find('.')) + (path[0] == 'c' ? ".nodes" : ".stages"),
                                            path[0] == 'c' ? "1" : "auto"}});
    const Outcome with = check({{c.path, c.value}});
    if (c.later == nullptr) {
      EXPECT_TRUE(with.later.empty()) << with.later[0];
      EXPECT_NE(base.module, with.module);
    } else {
      ASSERT_EQ(with.later.size(), 1U);
      EXPECT_EQ(with.later[0], std::string(c.later) + " is not available yet");
    }
  }
}

TEST(Hints, TheCasesAboveAreAllSettings) {
  std::set<std::string> covered;
  for (const Case& c : kCases) {
    const std::string path = c.path;
    const size_t dot = path.find('.');
    covered.insert(path.substr(0, path.find('.', dot + 1)));
  }
  for (const SettingInfo& info : all_settings()) {
    if (info.kind == DeclKind::kCluster || info.kind == DeclKind::kSchedule) {
      const std::string path = (info.kind == DeclKind::kCluster ? "cluster." : "schedule.") + std::string(info.key);
      EXPECT_TRUE(covered.contains(path)) << path << " is in no case";
    }
  }
}

TEST(Hints, DefaultsThatAreWrittenOutAreNoWish) {
  for (const auto& [path, value] : std::map<std::string, std::string>{{"cluster.nodes", "1"},
                                                                      {"cluster.network", "none"},
                                                                      {"cluster.node.gpus", "0"},
                                                                      {"schedule.search", "auto"},
                                                                      {"schedule.shard.id.chunks", "auto"},
                                                                      {"schedule.shard.id.split", "classes"}}) {
    EXPECT_TRUE(check({{path, value}}).later.empty()) << path;
  }
}

}  // namespace
}  // namespace xrun::lang
