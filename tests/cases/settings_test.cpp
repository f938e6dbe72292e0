// Each setting of the table changes something that a user can see, or is refused.
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "lang/lower/setting_def.h"
#include "tests/cases/case_files.h"
#include "tests/support/command.h"

namespace {

namespace fs = std::filesystem;
using xrun::lang::SettingDef;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;
using Words = std::vector<std::string>;

// Where the effect of a setting can be seen.
enum class Seen {
  kWeights,  // the digest of the weights at the end of a run
  kEvents,   // the events of a run without their times: kinds, steps, names of metrics
  kFiles,    // the files that a run writes
  kTensors,  // the tensors of the run's checkpoint
  kPlan,     // the text of `xrun plan`
  kProgram,  // the program of the plan
  kRefused,  // the setting is rejected by `plan`
  kEnds,     // the run ends with an error
  kResumed,  // whether a run resumes after the class `cat` was renamed to `lion`
};

struct Case {
  std::string setting;  // path in the table of settings: "train.checkpoint.every"
  Seen seen;
  std::string written;          // "train.checkpoint.every=2 steps"
  Words around = {};            // settings and flags of both runs
  std::string other = {};       // setting that the other run writes instead; empty: no setting
  const char* model = nullptr;  // text of the model; null: kModel
};

// Returns a table in which two of the twelve classes are frequent.
std::string rows(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const int label = i % 14 < 12 ? i % 14 : i % 2;
    for (int column = 0; column < 6; ++column) {
      text += fmt::format("{:.3f},", (column == label % 6 ? 4 : 0) + 0.1 * ((7 * i + 3 * column) % 11));
    }
    text += fmt::format("{}\n", label);
  }
  return text;
}

const std::string kModel = R"(xgraph 1

option classes: int = 12 in 2 .. 1M

model m {
  input x: f32[N, 6]

  hidden  = x -> linear(8) as embed -> bn -> relu
  feature = hidden -> linear(4) as last
  output feature

  head id = cosine_classifier(feature, classes)
}

model wide {
  input x: f32[N, 6]

  feature = x -> linear(16) as embed -> bn -> relu -> linear(4)
  output feature

  head id = cosine_classifier(feature, classes)
}

data d {
  source train = csv("train.csv")
  source test  = csv("test.csv")

  x     = columns(0..6)
  label = column(6) -> as_index(classes)
}

data reversed {
  source train = csv("train.csv")
  source test  = csv("test.csv")

  x     = columns(0..6) -> scale(2)
  label = column(6) -> as_index(classes)
}

train t {
  batch     = 8
  epochs    = 1
  norm_rows = 4
  loss      = cosface(id, label, margin=0.1, scale=16)
  optimizer = sgd(momentum=0.9, weight_decay=1e-3)
  lr        = 0.05
}

train hot {
  batch     = 8
  epochs    = 1
  norm_rows = 4
  loss      = cosface(id, label, margin=0.1, scale=16)
  optimizer = sgd(momentum=0.9, weight_decay=1e-3)
  lr        = 0.5
}

cluster small {
  node {
    cores = 2
  }
}

cluster large {
  node {
    cores = 1
  }
}

schedule plain {
  stages = 1
}

schedule deep {
  stages = 2
}

run usual {
  model    = m
  data     = d
  train    = t
  cluster  = small
  schedule = plain
}
)";

// One of the nine pictures is broken.
constexpr const char* kPictures = R"(xgraph 1

model m {
  input x: f32[N, 3, 8, 8]

  logits = x -> flatten -> linear(3)
  output logits
}

data d {
  source train = folder("pictures")

  max_bad = 50%
  x       = file -> decode(8)
}

train t {
  batch     = 3
  epochs    = 1
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = 0.001
}
)";

const Words kTwoDevices{"--devices", "2"};
const Words kTwoReplicas{"--devices", "2", "--set", "schedule.replicas=2", "--set", "schedule.stages=1"};
const Words kTwoStages{"--devices", "2", "--set", "schedule.stages=2"};
const Words kTest{"--set", "train.metrics=[accuracy(id, label)]"};

Words set(const std::string& setting) { return {"--set", setting}; }

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const std::vector<Case>& cases() {
  using enum Seen;
  static const std::vector<Case> all{
      {"data.max_bad", kEnds, "max_bad = 1%", {}, "max_bad = 50%", kPictures},
      {"data.classes",
       kResumed,
       "max_bad = 50%\n  classes {\n    moved cat -> lion\n  }",
       {},
       "max_bad = 50%",
       kPictures},
      {"data.NAME", kWeights, "data.x=columns(0..6) -> scale(2)"},
      {"train.batch", kWeights, "train.batch=16"},
      {"train.epochs", kWeights, "train.epochs=2"},
      {"train.steps", kWeights, "steps     = 9", {}, "epochs    = 1"},
      {"train.loss", kWeights, "train.loss=softmax_ce(id, label)"},
      {"train.reduce", kWeights, "train.reduce=sum"},
      {"train.optimizer", kWeights, "train.optimizer=adamw"},
      {"train.lr", kWeights, "train.lr=0.5"},
      {"train.groups.PATH.lr", kWeights, "train.groups.embed.lr=0.1"},
      {"train.groups.PATH.weight_decay", kWeights, "train.groups.embed.weight_decay=0.5"},
      {"train.groups.PATH.weights", kWeights, "train.groups.id.weights=bf16"},
      {"train.groups.PATH.states", kWeights, "train.groups.id.states=bf16"},
      {"train.groups.PATH.untouched", kWeights, "train.groups.id.untouched=exact",
       with(set("train.active_classes=sample(75%)"), set("train.optimizer=sgd(momentum=0.9)"))},
      {"train.groups.PATH.rows", kPlan, "train.groups.id.rows=mapped",
       with(set("classes=262144"), set("train.active_classes=sample(1%)"))},
      {"train.freeze", kWeights, "train.freeze=[embed]"},
      {"train.precision", kWeights, "train.precision=mixed(bf16)"},
      {"train.seed", kWeights, "train.seed=7"},
      {"train.norm_rows", kWeights, "train.norm_rows=8"},
      {"train.grad_accumulation", kWeights, "train.grad_accumulation=2"},
      {"train.clip", kWeights, "train.clip=norm(0.01)"},
      {"train.init", kWeights, "train.init=checkpoint(\"first\")"},
      {"train.order", kWeights, "train.order=sequential"},
      {"train.class_weights", kWeights, "train.class_weights=inverse_frequency"},
      {"train.deterministic", kPlan, "train.deterministic=true"},
      {"train.metrics", kEvents, "train.metrics=[accuracy(id, label)]"},
      {"train.eval.every", kEvents, "train.eval.every=2 steps",
       set("train.eval.test=accuracy(id, label, source=test)")},
      {"train.eval.NAME", kEvents, "train.eval.held=accuracy(id, label, source=test)"},
      {"train.log.every", kEvents, "train.log.every=1 step"},
      {"train.log.tensorboard", kFiles, "train.log.tensorboard=true"},
      {"train.log.prometheus", kEvents, "train.log.prometheus=\"192.0.2.1:9464\""},
      {"train.checkpoint.every", kEvents, "train.checkpoint.every=2 steps"},
      {"train.checkpoint.keep", kFiles, "train.checkpoint.keep=1", set("train.checkpoint.every=2 steps")},
      {"train.checkpoint.best", kFiles, "train.checkpoint.best=highest(test, 2)",
       with(kTest, with(set("train.checkpoint.every=1 step"), set("train.checkpoint.keep=1")))},
      {"train.checkpoint.dir", kFiles, "train.checkpoint.dir=\"elsewhere\""},
      {"train.checkpoint.async", kPlan, "train.checkpoint.async=true"},
      {"train.checkpoint.copy", kFiles, "train.checkpoint.copy=\"DIRECTORY/second\""},
      {"train.active_classes", kWeights, "train.active_classes=sample(75%)"},
      {"train.compress", kWeights, "train.compress=topk(10%)", kTwoReplicas},
      {"train.stop_when", kEvents, "train.stop_when=test >= 0%", with(kTest, set("train.epochs=2"))},
      {"train.ema", kTensors, "train.ema=0.9"},
      {"cluster.nodes", kPlan, "cluster.nodes=2", set("cluster.network=ethernet(100Gbit/s)")},
      {"cluster.network", kRefused, "cluster.network=none",
       with(set("cluster.network=ethernet(100Gbit/s)"), set("cluster.nodes=2"))},
      {"cluster.node.cpu", kPlan, "cluster.node.cpu=zen"},
      {"cluster.node.cores", kPlan, "cluster.node.cores=1"},
      {"cluster.node.memory", kPlan, "cluster.node.memory=4GiB"},
      {"cluster.node.storage", kPlan, "cluster.node.storage=1MB/s"},
      {"cluster.node.gpus", kPlan, "cluster.node.gpus=2", set("cluster.node.gpu=h100")},
      {"cluster.node.gpu", kPlan, "cluster.node.gpu=h100"},
      {"cluster.node.device",
       kPlan,
       "cores = 2\n    device {\n      memory = 24GB\n      bandwidth = 1TB/s\n      flops {\n        f32 = 60TFLOPS\n"
       "      }\n    }",
       {},
       "cores = 2"},
      {"cluster.node.calibration",
       kPlan,
       "cores = 2\n    calibration {\n      instructions = amx\n      update = 2MB/s\n    }",
       {},
       "cores = 2"},
      {"cluster.node.link", kRefused, "cluster.node.link=pcie(1GB/s)"},
      {"cluster.reserve", kPlan, "cluster.reserve=3GiB"},
      {"schedule.stages", kPlan, "schedule.stages=2", kTwoDevices},
      {"schedule.micro_batches", kPlan, "schedule.micro_batches=2", kTwoDevices},
      {"schedule.pipeline", kPlan, "schedule.pipeline=one_f_one_b", with(kTwoStages, set("schedule.micro_batches=2"))},
      {"schedule.replicas", kPlan, "schedule.replicas=2", kTwoDevices},
      {"schedule.recompute", kProgram, "schedule.recompute=all"},
      {"schedule.overlap", kProgram, "schedule.overlap=false", kTwoReplicas},
      {"schedule.bucket", kProgram, "schedule.bucket=64B", kTwoReplicas},
      {"schedule.shard.HEAD.over", kPlan, "schedule.shard.id.over=1", kTwoDevices},
      {"schedule.shard.HEAD.split", kRefused, "schedule.shard.id.split=features"},
      {"schedule.shard.HEAD.granularity", kProgram, "schedule.shard.id.granularity=micro_batch",
       with(kTwoStages, with(set("schedule.pipeline=gpipe"), set("schedule.micro_batches=2")))},
      {"schedule.pin.PATH", kPlan, "schedule.pin.bn=stage(0)", kTwoStages},
      {"schedule.memory_limit", kRefused, "schedule.memory_limit=16KiB"},
      {"run.model", kWeights, "model    = wide", {}, "model    = m"},
      {"run.data", kWeights, "data     = reversed", {}, "data     = d"},
      {"run.train", kWeights, "train    = hot", {}, "train    = t"},
      {"run.cluster", kPlan, "cluster  = large", {}, "cluster  = small"},
      {"run.schedule", kPlan, "schedule = deep", kTwoDevices, "schedule = plain"},
  };
  return all;
}

std::string path_of(const SettingDef& def) { return fmt::format("{}.{}", keyword_of(def.kind), def.path()); }

// Returns whether a setting is a group of settings. A group needs no case, because each of its members has one.
bool is_group(const SettingDef& def) {
  return std::ranges::any_of(xrun::lang::all_settings(), [&](const SettingDef& other) {
    return other.kind == def.kind && other.path().starts_with(def.path() + ".");
  });
}

class EachSetting : public testing::Test {
 protected:
  void SetUp() override {
    directory_.write("train.csv", rows(144));
    directory_.write("test.csv", rows(28));
    xrun::testing::write_animals(directory_, "pictures", 3);
    directory_.write("pictures/owl/2.ppm", "P6\n8 8\n255\nbroken");
  }

  // Returns what a user sees of the model, with `written` or with `other`.
  std::string seen(const Case& one, bool is_set) {
    std::string text = one.model != nullptr ? one.model : kModel;
    // The free memory of the machine changes between two plans, so it is fixed here.
    Words words = with(set("cluster.node.memory=8GiB"), one.around);
    if (is_set && !one.other.empty()) {
      text.replace(text.find(one.other), one.other.size(), one.written);
    } else if (is_set) {
      const std::string written =
          std::regex_replace(one.written, std::regex("DIRECTORY"), fs::absolute(directory_.path()).string());
      words = with(words, set(written));
    }
    if (one.seen == Seen::kResumed) {
      return resumed_with(one.model, text);
    }
    directory_.write("m.xgraph", text);
    const bool plans = one.seen == Seen::kPlan || one.seen == Seen::kRefused;
    return plans                        ? output_of(with({"plan", "m.xgraph", "--dry-run"}, words))
           : one.seen == Seen::kProgram ? output_of(with({"show", "m.xgraph", "--emit", "program"}, words))
                                        : run_of(one.seen, words);
  }

  xrun::testing::CommandResult run(const Words& words) { return run_xrun(words, {.directory = directory_.path()}); }

  std::string output_of(const Words& words) {
    const auto result = run(words);
    return result.exit == 0 ? result.out : fmt::format("exit {}\n{}", result.exit, result.err);
  }

  std::string resumed_with(const std::string& first, const std::string& then) {
    const fs::path pictures = fs::path(directory_.path()) / "pictures";
    fs::remove_all(fs::path(directory_.path()) / "ckpt");
    directory_.write("m.xgraph", first);
    const Words train{"train", "m.xgraph", "--devices", "1", "--progress", "none"};
    EXPECT_EQ(run(train).exit, 0);
    fs::rename(pictures / "cat", pictures / "lion");
    directory_.write("m.xgraph", then);
    const auto result = run(train);
    fs::rename(pictures / "lion", pictures / "cat");
    return result.exit == 0 ? "goes on" : "is refused: " + result.err;
  }

  std::string run_of(Seen seen, const Words& more) {
    const fs::path work = fs::path(directory_.path());
    fs::remove_all(work / "ckpt");
    fs::remove_all(work / "elsewhere");
    fs::remove_all(work / "second");
    Words words{"train", "m.xgraph", "--deterministic", "--progress", "json"};
    if (std::ranges::find(more, "--devices") == more.end()) {
      words = with(words, {"--devices", "1", "--threads", "1"});
    }
    const auto result = run(with(words, more));
    if (result.exit != 0) {
      return fmt::format("exit {}\n{}{}", result.exit, result.err, result.out);
    }
    if (seen == Seen::kTensors) {
      const std::string shown = output_of({"show", "ckpt/t"});
      return shown.substr(std::min(shown.find("\n\n"), shown.size()));
    }
    if (seen == Seen::kFiles) {
      std::set<std::string> files;
      for (const auto& entry : fs::recursive_directory_iterator(work)) {
        files.insert(fs::relative(entry.path(), work).string());
      }
      return fmt::format("{}", fmt::join(files, "\n"));
    }
    std::string events;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event.at("t") == "end" && seen == Seen::kWeights) {
        return event.at("weights");
      }
      events += fmt::format("{} {}", event.at("t").get<std::string>(), event.value("step", 0));
      for (const auto& [key, value] : event.items()) {
        events += " " + key;
      }
      events += "\n";
    }
    return events;
  }

  TemporaryDirectory directory_;
};

TEST_F(EachSetting, HasOneCaseInThisFile) {
  std::set<std::string> covered;
  for (const Case& one : cases()) {
    EXPECT_TRUE(covered.insert(one.setting).second) << one.setting << " has two";
  }
  for (const SettingDef& def : xrun::lang::all_settings()) {
    if (!is_group(def)) {
      EXPECT_EQ(covered.erase(path_of(def)), 1u) << path_of(def) << " is in no case: say where its effect is seen";
    }
  }
  EXPECT_TRUE(covered.empty()) << *covered.begin() << " is no setting";
}

// The results that the cases compare must be equal if no setting was changed.
TEST_F(EachSetting, WritingItsDefaultChangesNothing) {
  using enum Seen;
  for (const auto& [seen_in, written] : {std::pair{kWeights, "train.seed=1"},
                                         {kEvents, "train.log.every=10 steps"},
                                         {kFiles, "train.checkpoint.keep=3"},
                                         {kTensors, "train.ema=none"},
                                         {kPlan, "schedule.bucket=25MiB"},
                                         {kProgram, "schedule.recompute=auto"}}) {
    const Case one{"", seen_in, written};
    EXPECT_EQ(seen(one, true), seen(one, false)) << written;
  }
}

TEST_F(EachSetting, HasAVisibleEffectOrIsRejected) {
  directory_.write("m.xgraph", kModel);
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none", "--set", "train.checkpoint.dir=\"first\""}).exit, 0);
  std::map<std::string, std::string> known;  // results without the setting
  for (const Case& one : cases()) {
    const bool has_twin = one.other.empty() && one.model == nullptr;
    const std::string twin = fmt::format("{} {}", static_cast<int>(one.seen), fmt::join(one.around, " "));
    const std::string before = has_twin && known.contains(twin) ? known[twin] : seen(one, false);
    if (has_twin) {
      known[twin] = before;
    }
    const std::string after = seen(one, true);
    EXPECT_FALSE(before.starts_with("exit ")) << one.setting << "\n" << before;
    EXPECT_EQ(after.starts_with("exit "), one.seen == Seen::kRefused || one.seen == Seen::kEnds) << one.setting << "\n"
                                                                                                 << after;
    EXPECT_NE(before, after) << one.setting << " changes nothing that a user can see";
  }
}

}  // namespace
