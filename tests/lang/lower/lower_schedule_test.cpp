// Every setting of `cluster` and `schedule` reaches the module, or is reported as not available yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <regex>
#include <set>

#include "graph/settings/gpu_def.h"
#include "lang/frontend.h"
#include "lang/lower/module_builder.h"
#include "lang/lower/setting_def.h"
#include "lang/print_module.h"
#include "tests/lang/checked.h"
#include "tests/lang/test_ops.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  std::string module;  // the printed module
  std::vector<std::string> later;
};

Outcome check(const std::vector<SetValue>& sets) {
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
    // Unavailable settings are listed at the end of the text.
    outcome.module = print_module(file->module, file->run);
    outcome.module = outcome.module.substr(0, outcome.module.find("not yet: "));
  }
  return outcome;
}

struct Case {
  const char* path;
  const char* value;
  const char* later;  // the message about an unavailable setting; null: the module has what was asked for
};

const std::vector<Case> kCases{
    {"cluster.network", "ethernet(25Gbit/s, latency=20us)", nullptr},
    {"cluster.node.cpu", "\"epyc\"", nullptr},
    {"cluster.node.cores", "3", nullptr},
    {"cluster.node.memory", "3GiB", nullptr},
    {"cluster.node.storage", "2GB/s", nullptr},
    {"cluster.node.link", "nvlink(150GB/s)", "`node.link`"},
    {"cluster.node.gpu", "h200", nullptr},
    {"cluster.node.gpus", "8", nullptr},
    {"cluster.reserve", "1GiB", nullptr},
    {"schedule.stages", "2", nullptr},
    {"schedule.micro_batches", "2", nullptr},
    {"schedule.pipeline", "one_f_one_b", nullptr},
    {"schedule.pipeline", "one_f_one_b(warm_up=2)", nullptr},
    {"schedule.pipeline", "interleaved(chunks=3)", nullptr},
    {"schedule.pipeline", "zb_v", nullptr},
    {"schedule.pipeline", "zero_bubble", nullptr},
    {"schedule.replicas", "2", nullptr},
    {"schedule.recompute", "all", nullptr},
    {"schedule.overlap", "false", nullptr},
    {"schedule.bucket", "1MiB", nullptr},
    {"schedule.shard.id.over", "3", nullptr},
    {"schedule.shard.id.granularity", "micro_batch", nullptr},
    {"schedule.pin.embed", "stage(0)", nullptr},
    {"schedule.memory_limit", "1GiB", nullptr},
};

TEST(Hints, EverySettingReachesTheModuleOrIsReportedAsUnavailable) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.path);
    // The text that the case is compared with also has the group, but without the setting.
    const std::string path = c.path;
    const bool is_shard = path.find("shard.id") != std::string::npos;
    const Outcome base = is_shard ? check({{"schedule.shard.id.split", "classes"}})
                                  : check({{path.substr(0, path.find('.')) + (path[0] == 'c' ? ".nodes" : ".stages"),
                                            path[0] == 'c' ? "1" : "auto"}});
    const Outcome with = path == "cluster.node.gpus" ? check({{"cluster.node.gpu", "h100"}, {c.path, c.value}})
                                                     : check({{c.path, c.value}});
    if (c.later == nullptr) {
      EXPECT_TRUE(with.later.empty()) << with.later[0];
      EXPECT_NE(base.module, with.module);
    } else {
      ASSERT_EQ(with.later.size(), 1U);
      EXPECT_EQ(with.later[0], std::string(c.later) + " is not available yet");
    }
  }
}

TEST(Hints, GpusHaveAKindAndANumber) {
  const auto node = [](const std::string& lines) {
    return Checked("cluster card {\n  node {\n    " + lines + "\n  }\n}\n");
  };
  const Checked eight = node("gpu  = h100_80g\n    gpus = 8");
  EXPECT_THAT(eight.codes(), IsEmpty());
  EXPECT_EQ(eight.module().cluster.gpu, "h100") << "the two names are one kind";
  EXPECT_EQ(eight.module().cluster.gpus, 8);
  EXPECT_EQ(node("gpu = h200").module().cluster.gpus, 1);
  EXPECT_EQ(node("gpu = none").module().cluster.gpu, "");
  EXPECT_EQ(node("cores = 2").module().cluster.gpu, "");
  EXPECT_THAT(node("gpus = 8").codes(), ElementsAre("XG0513"));
  EXPECT_THAT(node("gpu = none\n    gpus = 8").codes(), ElementsAre("XG0513"));
  EXPECT_THAT(node("gpu = v100_64g").codes(), ElementsAre("XG0205"));
  EXPECT_THAT(node("gpu = v100_64g\n    gpus = 8").codes(), ElementsAre("XG0205")) << "a kind that has a fault";
  EXPECT_THAT(node("gpu = h100\n    gpus = 0").codes(), ElementsAre("XG0214"));
  // Every kind can be named, and every name is a kind.
  for (const GpuDef& gpu : gpu_defs()) {
    EXPECT_EQ(node("gpu = " + std::string(gpu.name)).module().cluster.gpu, gpu.name);
  }
}

TEST(Hints, NodesAreJoinedByANetwork) {
  const auto cluster = [](const std::string& lines) { return Checked("cluster racks {\n  " + lines + "\n}\n"); };
  const Checked both = cluster("nodes = 4\n  network = ethernet(25Gbit/s, latency=20us)");
  EXPECT_THAT(both.codes(), IsEmpty());
  EXPECT_EQ(both.module().cluster.nodes, 4);
  EXPECT_EQ(both.module().cluster.network, (NetworkSpec{"ethernet", 3.125e9, 20e-6}));
  EXPECT_EQ(cluster("network = infiniband(200Gbit/s)").module().cluster.network,
            (NetworkSpec{"infiniband", 25e9, 3e-6}));
  EXPECT_THAT(cluster("nodes = 4").codes(), ElementsAre("XG0512"));
  EXPECT_THAT(cluster("nodes = 0").codes(), ElementsAre("XG0214"));
  EXPECT_THAT(cluster("nodes = 2000\n  network = ethernet(1Gbit/s)").codes(), ElementsAre("XG0214"));
  EXPECT_THAT(cluster("network = ethernet(25)").codes(), ElementsAre("XG0107"));
  EXPECT_THAT(cluster("network = ethernet(0bit/s)").codes(), ElementsAre("XG0214"));
  EXPECT_THAT(cluster("network = ethernet(1Gbit/s, latency=1min)").codes(), ElementsAre("XG0214"));
  EXPECT_THAT(cluster("network = token_ring(4Mbit/s)").codes(), ElementsAre("XG0205"));
}

TEST(Hints, RatesOfStorageHaveAUnitAndAreMoreThanNothing) {
  const auto storage = [](const std::string& value) {
    return Checked("cluster one {\n  node {\n    storage = " + value + "\n  }\n}\n");
  };
  EXPECT_EQ(storage("2GB/s").module().cluster.storage, 2e9);
  EXPECT_EQ(storage("none").module().cluster.storage, 0);
  EXPECT_THAT(storage("2").codes(), ElementsAre("XG0107"));
  EXPECT_THAT(storage("0GB/s").codes(), ElementsAre("XG0214"));
  EXPECT_THAT(storage("2GiB").codes(), ElementsAre("XG0107"));
}

// If a line has only a number, the unit is inserted before the comment at the end of the line.
TEST(Hints, AMissingUnitIsInsertedBeforeTheComment) {
  SourceMap sources;
  Diagnostics diagnostics;
  static const OpRegistry ops = test_ops::registry();
  check_text("test.xgraph", kText, sources, diagnostics, {.ops = &ops, .sets = {{"cluster.node.storage", "2"}}});
  ASSERT_EQ(diagnostics.error_count(), 1);
  const std::string told = render(diagnostics.all()[0], sources);
  EXPECT_NE(told.find("1 ~ 2Gbit/s   # 0.25 GB/s\n"), std::string::npos) << told;
}

TEST(Hints, BucketsHaveAtLeastOneByte) {
  const auto bucket = [](const std::string& value) { return Checked("schedule one {\n  bucket = " + value + "\n}\n"); };
  EXPECT_EQ(bucket("1B").module().schedule.bucket, 1);
  EXPECT_EQ(Checked("schedule one {}\n").module().schedule.bucket, Bytes{25} << 20);
  EXPECT_THAT(bucket("0B").codes(), ElementsAre("XG0214"));
  EXPECT_THAT(bucket("auto").codes(), ElementsAre("XG0205"));
}

TEST(Hints, APrometheusAddressNeedsAnIpAddressAndAPort) {
  const auto served = [](const std::string& address) { return check({{"train.log.prometheus", address}}).module; };
  for (const char* good : {"127.0.0.1:9464", "0.0.0.0:1", "10.1.2.3:65535"}) {
    EXPECT_NE(served('"' + std::string(good) + '"').find(good), std::string::npos) << good;
  }
  EXPECT_EQ(served("none"), check({}).module);
  static const OpRegistry ops = test_ops::registry();
  for (const char* bad :
       {"", "9464", ":9464", "localhost:9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
        "127.0.0.1:9464s", "127.0.0.1:09464", "::1:9464", "[::1]:9464", "[127.0.0.1]:9464", "127.0.0.1:1,0.0.0.0:2",
        "127.0.0.1:-1", "[]:1", "x:/tmp/socket", "127.0.0.1:123456"}) {
    SourceMap sources;
    Diagnostics diagnostics;
    check_text("test.xgraph", kText, sources, diagnostics,
               {.ops = &ops, .sets = {{"train.log.prometheus", '"' + std::string(bad) + '"'}}});
    ASSERT_EQ(diagnostics.error_count(), 1) << bad;
    EXPECT_EQ(diagnostics.all()[0].code, "XG0214") << bad;
  }
}

TEST(Hints, SecondCopiesHaveAnAbsolutePath) {
  const auto with = [](const std::string& path) { return check({{"train.checkpoint.copy", path}}).module; };
  EXPECT_NE(with("\"/local/copies\"").find("\n  checkpoint.copy = \"/local/copies\"\n"), std::string::npos);
  EXPECT_EQ(with("none"), check({}).module);
  EXPECT_EQ(with("none").find("checkpoint.copy"), std::string::npos) << "texts without it are as before";
  static const OpRegistry ops = test_ops::registry();
  for (const char* bad : {"", "copies", "./copies", "../copies", "~/copies"}) {
    SourceMap sources;
    Diagnostics diagnostics;
    check_text("test.xgraph", kText, sources, diagnostics,
               {.ops = &ops, .sets = {{"train.checkpoint.copy", '"' + std::string(bad) + '"'}}});
    ASSERT_EQ(diagnostics.error_count(), 1) << bad;
    EXPECT_EQ(diagnostics.all()[0].code, "XG0214") << bad;
    EXPECT_NE(diagnostics.all()[0].message.find("`copy` cannot be"), std::string::npos) << bad;
  }
}

TEST(Hints, TheCasesCoverAllSettings) {
  std::set<std::string> covered{"cluster.nodes"};  // needs a network; tested below
  for (const Case& c : kCases) {
    covered.insert(c.path);
  }
  for (const SettingDef& def : all_settings()) {
    // The cases of a group's members cover the group. `split` has only one possible value.
    const bool is_group = def.type[0] == '{' || def.key == "HEAD" || def.key == "shard";
    if ((def.kind == DeclKind::kCluster || def.kind == DeclKind::kSchedule) && !is_group && def.key != "split") {
      std::string path = std::string(keyword_of(def.kind)) + "." + def.path();
      for (const auto& [name, mine] : {std::pair("HEAD", "id"), std::pair("PATH", "embed")}) {
        if (const size_t at = path.find(name); at != std::string::npos) {
          path.replace(at, 4, mine);
        }
      }
      EXPECT_TRUE(covered.contains(path)) << path << " is in no case";
    }
  }
}

TEST(Hints, DefaultsThatAreWrittenOutChangeNothing) {
  const std::regex literal(R"(auto|none|all|mean|seed|f32|shuffled|classes|false|[0-9.]+%?|[0-9]+ (steps|epoch)|\[\])");
  int tried = 0;
  for (const SettingDef& def : all_settings()) {
    const std::string value(def.fallback);
    std::string path = std::string(keyword_of(def.kind)) + "." + def.path();
    if (!std::regex_match(value, literal) || def.type[0] == '{' || def.is_name() || def.group == "groups PATH" ||
        def.key == "shard") {
      continue;
    }
    if (const size_t at = path.find("HEAD"); at != std::string::npos) {
      path.replace(at, 4, "id");
    }
    const bool is_shard = path.find("shard") != std::string::npos;
    const bool is_eval = path.find("eval") != std::string::npos;
    const Outcome base = check({{is_shard  ? "schedule.shard.id.split"
                                 : is_eval ? "train.eval.test"
                                           : "train.batch",
                                 is_shard  ? "classes"
                                 : is_eval ? "accuracy(id, label, source=train)"
                                           : "128"}});
    Outcome with =
        check({{is_eval ? "train.eval.test" : "train.batch", is_eval ? "accuracy(id, label, source=train)" : "128"},
               {path, value}});
    EXPECT_EQ(with.module, base.module) << path;
    EXPECT_TRUE(with.later.empty()) << path;
    ++tried;
  }
  EXPECT_GT(tried, 30);
}

std::string faults_of(const SetValue& set) {
  const Checked checked(std::string(kText).substr(std::string("xgraph 1\n").size()), {.sets = {set}});
  EXPECT_FALSE(checked.file);
  return checked.rendered();
}

TEST(Hints, ASizeWithAScaleButNoUnitGetsUnits) {
  const std::string faults = faults_of({"schedule.memory_limit", "5M"});
  EXPECT_THAT(faults, HasSubstr("1 ~ 5MB\n  ~ 5MiB\n"));
  EXPECT_THAT(faults_of({"schedule.memory_limit", "5k"}), HasSubstr("1 ~ 5kB\n"));
}

TEST(Hints, TheNameOfAScheduleInPapersIsReplaced) {
  EXPECT_THAT(faults_of({"schedule.pipeline", "1f1b"}), HasSubstr("1 ~ one_f_one_b\n"));
}

}  // namespace
}  // namespace xrun::lang
