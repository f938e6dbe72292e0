// Settings that cannot be carried out are rejected where they are set: paths of --set, numbers out of range, and names
// that do not exist.
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>
#include <sys/stat.h>
#include <unistd.h>

#include "lang/lower/setting_def.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Checked with_set(const std::string& path, const std::string& value, const std::string& declarations = {}) {
  return Checked(small_run({}, declarations), {.sets = {{path, value}}});
}

TEST(SetFlag, RejectsAPathWithAnEmptyStep) {
  const std::string hints = "\nschedule s {\n  stages = 2\n}\n";
  for (const char* path : {"schedule.", "schedule..stages", "schedule.stages.", "train..", "data.", ".", "..", ""}) {
    const Checked checked = with_set(path, "3", hints);
    EXPECT_EQ(checked.codes().size(), 1U) << path << "\n" << checked.rendered();
    EXPECT_FALSE(checked.file.has_value()) << path;
  }
  const Checked checked = with_set("schedule.", "3", hints);
  EXPECT_THAT(checked.codes(), ElementsAre("XG0210"));
  EXPECT_THAT(checked.rendered(), HasSubstr("a step of the path is empty"));
}

TEST(SetFlag, RejectsAPathBelowAValue) {
  const Checked below = with_set("train.loss.x", "64");
  EXPECT_THAT(below.codes(), ElementsAre("XG0210"));
  EXPECT_THAT(below.rendered(), AllOf(HasSubstr("there is no `train.loss.x`"), HasSubstr("set `loss` as a whole"),
                                      HasSubstr("the value")));
  EXPECT_THAT(with_set("train.optimizer.momentum", "0.5").codes(), ElementsAre("XG0210"));
  EXPECT_THAT(with_set("data.x.y", "1").codes(), ElementsAre("XG0210"));
  // If there are two --set flags, the second one is also checked.
  EXPECT_THAT(Checked(small_run(), {.sets = {{"schedule.stages", "2"}, {"schedule.stages.x", "2"}}}).codes(),
              ElementsAre("XG0210"));
}

TEST(Settings, NothingIsSetBelowAValueInTheText) {
  EXPECT_THAT(Checked(small_run("  seed = 2\n  seed.x = 64")).codes(), ElementsAre("XG0211"));
  EXPECT_THAT(Checked(small_run("  seed = 2\n  seed.x {\n    y = 1\n  }")).codes(), ElementsAre("XG0211"));
  EXPECT_THAT(Checked(small_run("  seed = 2\n  seed {\n    y = 1\n  }")).codes(), ElementsAre("XG0211"));
}

// Writes a group in place of every setting that takes a value.
TEST(Settings, AValueThatIsWrittenAsAGroupIsRejected) {
  int tried = 0;
  for (const SettingDef& def : all_settings()) {
    const bool is_group = std::ranges::any_of(all_settings(), [&](const SettingDef& other) {
      return other.kind == def.kind && other.group.substr(0, other.group.find(' ')) == def.key;
    });
    if (!def.group.empty() || def.is_name() || is_group || def.type.find('{') != std::string_view::npos) {
      continue;
    }
    const std::string key(def.key);
    for (const std::string& group : {key + ".x = 3", key + " {\n  x = 3\n  }", key + " {\n  }", key + " x {\n  }"}) {
      std::string text = small_run();
      if (def.kind == DeclKind::kTrain) {
        text = std::regex_replace(text, std::regex("\n  " + key + " *=[^\n]*"), "");
        text = std::regex_replace(text, std::regex("(\ntrain [a-z]* *\\{)"), "$1\n  " + group);
      } else {
        text += fmt::format("\n{} other {{\n  {}\n}}\n", keyword_of(def.kind), group);
      }
      const Checked checked(text);
      EXPECT_FALSE(checked.codes().empty()) << text;
      ++tried;
    }
  }
  EXPECT_GT(tried, 150);
}

TEST(Ranges, ASizeOfZeroIsRejected) {
  for (const char* path : {"schedule.memory_limit", "schedule.bucket", "cluster.node.memory"}) {
    const Checked none = with_set(path, "0B");
    EXPECT_THAT(none.codes(), ElementsAre("XG0214")) << path;
    EXPECT_THAT(none.rendered(), HasSubstr("help: write 1B or more")) << path;
    EXPECT_THAT(with_set(path, "1bit").codes(), ElementsAre("XG0214")) << path;
    // The number does not fit into 64 bits.
    EXPECT_THAT(with_set(path, "100_000_000TiB").codes(), ElementsAre("XG0214")) << path;
    EXPECT_THAT(with_set(path, "1B").codes(), IsEmpty()) << path;
  }
  EXPECT_THAT(with_set("cluster.reserve", "0B").codes(), IsEmpty());
}

TEST(Ranges, CoresAndSamplesAreBounded) {
  EXPECT_THAT(with_set("cluster.node.cores", "1024").codes(), IsEmpty());
  EXPECT_THAT(with_set("cluster.node.cores", "1025").codes(), ElementsAre("XG0214"));
  EXPECT_THAT(with_set("train.batch", "1_073_741_824").codes(), IsEmpty());
  EXPECT_THAT(with_set("train.batch", "1_073_741_888").codes(), ElementsAre("XG0214"));
  const Checked accumulated(small_run(), {.sets = {{"train.batch", "1_048_576"}, {"train.grad_accumulation", "1025"}}});
  EXPECT_THAT(accumulated.codes(), ElementsAre("XG0214"));
  EXPECT_THAT(accumulated.rendered(), HasSubstr("an update cannot take 1074790400 samples"));
}

TEST(Ranges, AWholeNumberOfMoreThan64BitsIsOutOfRange) {
  const Checked setting = with_set("train.batch", "100000000000000000000");
  EXPECT_THAT(setting.codes(), ElementsAre("XG0214"));
  EXPECT_THAT(setting.rendered(), AllOf(HasSubstr("1 to 1073741824"), Not(HasSubstr("expects a whole number"))));
  EXPECT_THAT(with_set("train.seed", "100000000000000000000").rendered(), HasSubstr("0 to 9223372036854775807"));
  EXPECT_THAT(with_set("classes", "100000000000000000000").rendered(), HasSubstr("does not fit into 64 bits"));
  const Checked argument("model m {\n  input x: f32[N, 8]\n  y = x -> linear(100000000000000000000)\n  output y\n}\n");
  EXPECT_THAT(argument.codes(), ElementsAre("XG0214"));
  EXPECT_THAT(argument.rendered(), HasSubstr("does not fit into 64 bits"));
}

TEST(Ranges, ArgumentsOfOptimizersAreCheckedAgainstTheirRanges) {
  for (const char* bad : {"adamw(beta1=2)", "adamw(beta1=-0.1)", "adamw(beta2=1)", "adamw(eps=-1)", "adamw(eps=0)",
                          "adamw(eps=1e-60)", "adamw(weight_decay=-5)", "adamw(weight_decay=1e60)", "sgd(momentum=5)",
                          "sgd(-1)", "sgd(momentum=1)", "lars(trust=0)", "lamb(beta1=1)", "adam(beta2=1)"}) {
    const Checked checked = with_set("train.optimizer", bad);
    EXPECT_THAT(checked.codes(), ElementsAre("XG0214")) << bad << checked.rendered();
  }
  for (const char* good : {"adamw(beta1=0, beta2=0.9999, eps=1e-30, weight_decay=0)", "sgd(0.999)", "sgd", "adamw",
                           "adam", "lamb", "lars"}) {
    EXPECT_THAT(with_set("train.optimizer", good).codes(), IsEmpty()) << good;
  }
  for (const char* ready : {"lamb(eps=1e-8)", "lars(momentum=0, trust=0.02)", "adam(weight_decay=0.1)", "lion",
                            "rmsprop(momentum=0.5)", "nadamw", "adamax", "adagrad", "adabelief"}) {
    EXPECT_TRUE(with_set("train.optimizer", ready).module().not_yet.empty()) << ready;
  }
  EXPECT_THAT(with_set("train.optimizer", "sgd(momentum=5)").rendered(),
              AllOf(HasSubstr("`momentum` of `sgd` cannot be 5\n"), HasSubstr("at least 0, and less than 1")));
}

TEST(Ranges, JitterOutsideOfZeroToOneIsRejected) {
  const std::string stage = "pixels -> color_jitter(brightness=-1)";
  EXPECT_THAT(with_set("data.x", stage).codes(), testing::Contains("XG0413"));
}

std::vector<std::string> metric_names(const std::string& list) {
  const Checked checked(small_run("  metrics = [" + list + "]"));
  EXPECT_TRUE(checked.file.has_value()) << checked.rendered();
  std::vector<std::string> names;
  for (const MetricSpec& metric : checked.file ? checked.module().train.metrics : std::vector<MetricSpec>{}) {
    names.push_back(metric.name);
  }
  return names;
}

// A report has one key for each metric: a second `accuracy` would replace the first one.
TEST(Metrics, NamesInAListAreUnique) {
  EXPECT_THAT(metric_names("accuracy(id, label), accuracy(id, label, k=5)"), ElementsAre("accuracy", "accuracy_k5"));
  EXPECT_THAT(metric_names("accuracy(id, label, k=5), accuracy(id, label, k=1)"),
              ElementsAre("accuracy_k5", "accuracy"));
  EXPECT_THAT(metric_names("accuracy(id, label), accuracy(id, label), accuracy(id, label)"),
              ElementsAre("accuracy", "accuracy_2", "accuracy_3"));
  EXPECT_THAT(metric_names("accuracy(id, label, source=train), accuracy(id, label, source=val, k=2)"),
              ElementsAre("accuracy_train", "accuracy_k2_val"));
  EXPECT_THAT(metric_names("softmax_ce(id, label, scale=16), softmax_ce(id, label, scale=0.5)"),
              ElementsAre("softmax_ce_scale16_0", "softmax_ce_scale0_5"));
  // Names of metrics leave out arguments with their default value, also if the value is a word or a bool. A default
  // that is written counts as a default.
  EXPECT_THAT(metric_names("arcface(id, label), arcface(id, label, margin_grad=capped, easy=false), "
                           "arcface(id, label, margin_grad=exact, easy=true)"),
              ElementsAre("arcface", "arcface_2", "arcface_easytrue_margin_gradexact"));
}

TEST(Metrics, NamesFromAnEvalBlockAreKept) {
  const Checked checked(
      small_run("  eval {\n    step = accuracy(id, label, k=5)\n    loss = accuracy(id, label)\n  }"));
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_EQ(checked.module().train.eval[0].name, "step");
  EXPECT_EQ(checked.module().train.eval[1].name, "loss");
}

// A file that only describes machines is complete: there is no model to compare its hints with.
TEST(Machines, AFileWithoutAModelIsComplete) {
  const Checked checked(
      "cluster box {\n  node { cores = 2 }\n}\n"
      "schedule split {\n  recompute = [stem]\n  shard character { over = 2 }\n  pin {\n    stem = stage(0)\n  }\n}\n");
  EXPECT_THAT(checked.codes(), IsEmpty()) << checked.rendered();
}

TEST(Choice, ListsTheDeclarationsOfTheFile) {
  const std::string runs = "\nrun fast {\n  train = softmax\n}\nrun slow {\n  train = softmax\n}\n";
  const Checked unknown(small_run({}, runs), {.run = "zzz"});
  EXPECT_THAT(unknown.codes(), ElementsAre("XG0213"));
  EXPECT_THAT(unknown.rendered(), HasSubstr("`test.xgraph` has no `run zzz`"));
  EXPECT_THAT(unknown.rendered(), HasSubstr("help: name one that it has: fast, slow"));
  EXPECT_THAT(Checked(small_run(), {.run = "zzz"}).rendered(), HasSubstr("help: it names no `run`: declare one"));
  const Checked open(small_run({}, runs));
  EXPECT_THAT(open.rendered(), AllOf(HasSubstr("name it: --run fast"), Not(HasSubstr("run NAME"))));
}

class ChoiceOfFiles : public testing::Test {
 protected:
  ChoiceOfFiles() {
    fs::create_directories(dir_);
    write("main.xgraph", "");
    write("two.xgraph", "schedule a {\n  stages = 1\n}\nschedule b {\n  stages = 2\n}\n");
  }
  ~ChoiceOfFiles() override { fs::remove_all(dir_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(dir_ / name) << "xgraph 1\n" << text; }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  std::string rendered(const std::string& file, FrontendOptions options) const {
    static const OpRegistry ops = test_ops::registry();
    options.ops = &ops;
    SourceMap sources;
    Diagnostics diagnostics;
    EXPECT_FALSE(load(file, sources, diagnostics, options).has_value());
    std::string text;
    for (const Diagnostic& d : diagnostics.all()) {
      text += render(d, sources);
    }
    return text;
  }
  fs::path dir_ = fs::path(testing::TempDir()) / ("xrun_choice_" + std::to_string(::getpid()));
};

TEST_F(ChoiceOfFiles, ListsTheDeclarationsOfAnotherFile) {
  EXPECT_THAT(rendered(path("main.xgraph"), {.schedule = path("two.xgraph") + ":zz"}),
              HasSubstr("help: name one that it has: a, b"));
  EXPECT_THAT(rendered(path("main.xgraph"), {.schedule = path("two.xgraph")}),
              AllOf(HasSubstr("has 2 declarations of `schedule`"), HasSubstr("name one of a, b: --schedule ")));
  EXPECT_THAT(rendered(path("main.xgraph"), {.cluster = path("two.xgraph")}),
              AllOf(HasSubstr("declares no `cluster`"), Not(HasSubstr("0 declarations"))));
}

TEST_F(ChoiceOfFiles, APipeIsReportedAsAPipeAndNotAsMissing) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(rendered(path("pipe"), {}),
              AllOf(HasSubstr("it is a pipe or a device, not a file"), HasSubstr("save it to a file first")));
  EXPECT_THAT(rendered(path("nothing"), {}), HasSubstr("No such file"));
  EXPECT_THAT(rendered(dir_.string(), {}), HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace xrun::lang
