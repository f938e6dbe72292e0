// `class_weights` and `order = balanced`: the weights of classes, the weighted loss and its gradient, and both settings
// in runs of the command.
#include "runtime/data/class_weights.h"

#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/train/session/session.h"
#include "tests/runtime/data/data_files.h"
#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/small_models.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The classes have 6, 3, 0 and 1 samples, and one sample is broken (-1).
const std::vector<int32_t> kLabels{0, 0, 0, 1, 1, -1, 0, 3, 0, 1, 0};
const std::vector<std::string> kNames{"cat", "dog", "7", "owl"};

class ClassWeights : public testing::Files {
 protected:
  ClassWeightsSpec csv(const std::string& text) {
    write("w.csv", text);
    return {.kind = ClassWeightsSpec::kCsv, .path = "w.csv", .directory = root_.string(), .span = {0, 3, 9}};
  }
  // Returns the error for a table of weights.
  Error fault_of(const std::string& text, std::span<const std::string> names = kNames) {
    auto weights = class_weights(csv(text), kLabels, 4, names);
    EXPECT_FALSE(weights.ok()) << text;
    if (weights.ok()) {
      return {};
    }
    Error error = std::move(weights).error();
    EXPECT_EQ(error.span, (Span{0, 3, 9})) << text;
    std::string& message = error.message;
    for (size_t at; (at = message.find(root_.string() + "/")) != std::string::npos;) {
      message.erase(at, root_.string().size() + 1);
    }
    return error;
  }
};

TEST_F(ClassWeights, HaveTheMeanOneOverTheSamplesForInverseFrequency) {
  const auto weights = class_weights({.kind = ClassWeightsSpec::kInverseFrequency}, kLabels, 4, {}).value();
  // The formula is samples / (classes that have samples · samples of the class), as for "balanced" in scikit-learn.
  EXPECT_THAT(weights, ElementsAre(10.0F / (3 * 6), 10.0F / (3 * 3), 0.0F, 10.0F / 3));
  double sum = 0;
  for (const int32_t label : kLabels) {
    sum += label < 0 ? 0 : static_cast<double>(weights[static_cast<size_t>(label)]);
  }
  EXPECT_NEAR(sum / 10, 1, 1e-7);
}

TEST_F(ClassWeights, AreFoundInATableByNameOrNumberAndScaled) {
  const float scale = 10.0F / (6 * 1 + 3 * 2 + 1 * 8);
  const auto expect_all = [&](const std::string& text, std::span<const std::string> names) {
    const auto weights = class_weights(csv(text), kLabels, 4, names);
    ASSERT_TRUE(weights.ok()) << weights.error().message;
    EXPECT_THAT(*weights, ElementsAre(scale, 2 * scale, 5 * scale, 8 * scale)) << text;
  };
  expect_all("cat,1\ndog,2\n7,5\nowl,8\n", kNames);
  expect_all("class,weight\r\nowl,8\r\n\"dog\", 2\r\n\r\ncat,1e0\r\n7,5\r\n", kNames);
  expect_all("cat,1\n1,2\n2,5\n3,8\n", kNames);  // numbers are accepted if no class has that name
  expect_all("0,1\n1,2\n2,5\n3,8", {});
  expect_all("class,weight\n3,8\n2,5\n1,2\n0,1\n", {});
  // The table may leave out a class without samples; its weight is 0.
  EXPECT_THAT(class_weights(csv("cat,1\ndog,2\nowl,8"), kLabels, 4, kNames).value(),
              ElementsAre(scale, 2 * scale, 0, 8 * scale));
  EXPECT_THAT(class_weights(csv("cat,0\ndog,0\nowl,5"), kLabels, 4, kNames).value(), ElementsAre(0, 0, 0, 10));
}

TEST_F(ClassWeights, FaultsOfTheTableNameTheLine) {
  struct Fault {
    const char* text;
    const char* code;
    const char* message;
    const char* help;
  };
  for (const Fault& want : {
           Fault{"cat,1\ndog,2\ncow,3\nowl,8", "XG0402", "w.csv:3: the training data have no class `cow`",
                 "classes are cat, dog, 7, owl"},
           Fault{"cat,1\n\ndog,2\ncat,3\nowl,8", "XG0402", "w.csv:4: the class `cat` has a weight already",
                 "it is also in line 1: remove one of the two"},
           Fault{"cat,1\nowl,8\n", "XG0402", "w.csv has no weight for the class `dog`, which has 3 samples",
                 "add a line for it; a weight of 0 leaves its samples out of the loss"},
           Fault{"", "XG0402", "w.csv has no weight for the class `cat`, which has 6 samples",
                 "add a line for it; a weight of 0 leaves its samples out of the loss"},
           Fault{"cat,0\ndog,0\nowl,0", "XG0402", "w.csv gives every training sample the weight 0",
                 "give at least one class with samples a weight above 0"},
           Fault{"cat,1\ndog,-2\nowl,8", "XG0412", "w.csv:2: the weight of `dog` is -2",
                 "write the weight as a number of 0 or more"},
           Fault{"class,weight\ncat,1\ndog,nan\nowl,8", "XG0412",
                 "w.csv:3: column 1 (`weight`) is \"nan\", not a number", "write the weight as a number of 0 or more"},
           Fault{"cat,1\ndog,inf\nowl,8", "XG0412",
                 "w.csv:2: the weight of `dog` is infinite or more than f32 can hold",
                 "write the weight as a number of 0 or more"},
           Fault{"cat,1\ndog,1e60\nowl,8", "XG0412",
                 "w.csv:2: the weight of `dog` is infinite or more than f32 can hold",
                 "write the weight as a number of 0 or more"},
           Fault{"cat,1,2\ndog,2,3\n", "XG0412", "w.csv: the table has 3 columns, not two",
                 "write a class and its weight in each line: cat,2.5"},
           Fault{"cat\ndog\n", "XG0412", "w.csv: the table has 1 columns, not two",
                 "write a class and its weight in each line: cat,2.5"},
       }) {
    const Error got = fault_of(want.text);
    EXPECT_EQ(got.code, want.code) << want.text;
    EXPECT_EQ(got.message, want.message) << want.text;
    EXPECT_EQ(got.help, want.help) << want.text;
  }
  EXPECT_EQ(fault_of("0,1\n1,2\n4,3\n3,1", {}).message, "w.csv:3: the training data have no class `4`");
  EXPECT_EQ(fault_of("0,1\n1,2\n-1,3\n3,1", {}).help, "classes are 0..3");
  // The fault may be in the first line, which is a header here, so a note says how it was read.
  EXPECT_THAT(fault_of("cat,x\ndog,2\nowl,8").notes,
              ElementsAre("the first line was read as the names of the columns"));
  const ClassWeightsSpec missing{.kind = ClassWeightsSpec::kCsv, .path = "none.csv", .directory = root_.string()};
  EXPECT_EQ(read_class_weights(missing).error().code, "XG0401");
}

// Compares the losses of rows, and the weights after a step, of one linear layer with softmax_ce, in f64.
TEST(WeightedLoss, LossAndGradientMatchAReferenceInF64) {
  const testing::ModelOptions options{
      .layers = 0, .input = 6, .width = 5, .classes = 4, .batch = 24, .arguments = {}, .weighted = true};
  for (const bool reduce_sum : {false, true}) {
    Module module = testing::make_module(options);
    module.train.reduce_sum = reduce_sum;
    const testing::Prepared prepared = testing::prepare_for(module);
    const auto program = testing::make_program(prepared, {.micro_batches = 2}).value();
    const auto devices = make_cpu_devices(program.threads);
    const auto session = Session::create(prepared.module, program, *devices, {.isa = prepared.isa}).value();
    session->state().initialise(3);
    ASSERT_TRUE(session->weights_changed().ok());
    const auto values = [&](std::string_view name) {
      for (const StateTensor& tensor : session->state().tensors()) {
        if (tensor.name == name) {
          std::vector<float> numbers(static_cast<size_t>(tensor.rows() * tensor.row_bytes()) / sizeof(float));
          session->state().read_rows(tensor, 0, tensor.rows(), reinterpret_cast<std::byte*>(numbers.data()));
          return std::vector<double>(numbers.begin(), numbers.end());
        }
      }
      ADD_FAILURE() << name;
      return std::vector<double>();
    };
    testing::SyntheticRows rows(prepared.module.graph, options, 1000);
    ASSERT_TRUE(rows.start(0, session->ring()).ok());
    ASSERT_TRUE(rows.wait(0).ok());
    const auto w1 = values("stem.weight"), b1 = values("stem.bias"), w = values("out.weight"), b = values("out.bias");
    const double rate = 0.5;
    ASSERT_TRUE(session->step(0, rate, 0).ok());
    const BatchView& batch = session->ring()[0];
    const auto* x = reinterpret_cast<const float*>(batch.inputs[0]);
    const auto* labels = reinterpret_cast<const int32_t*>(batch.inputs[1]);
    std::vector<float> losses(24);
    ASSERT_TRUE(session->read_rows(prepared.module.train.loss[0].rows, std::as_writable_bytes(std::span(losses))).ok());
    std::vector<double> moved = w;
    for (size_t row = 0; row < 24; ++row) {
      double h[5], z[4], sum = 0;
      for (size_t j = 0; j < 5; ++j) {
        h[j] = b1[j];
        for (size_t i = 0; i < 6; ++i) {
          h[j] += w1[j * 6 + i] * static_cast<double>(x[row * 6 + i]);
        }
      }
      for (size_t c = 0; c < 4; ++c) {
        z[c] = b[c];
        for (size_t j = 0; j < 5; ++j) {
          z[c] += w[c * 5 + j] * h[j];
        }
        sum += std::exp(z[c]);
      }
      const auto label = static_cast<size_t>(labels[row]);
      const double weight = testing::test_weight(labels[row]);
      EXPECT_NEAR(losses[row], weight * (std::log(sum) - z[label]), 1e-5);
      for (size_t c = 0; c < 4; ++c) {
        const double g = weight / (reduce_sum ? 1 : 24) * (std::exp(z[c]) / sum - (c == label ? 1 : 0));
        for (size_t j = 0; j < 5; ++j) {
          moved[c * 5 + j] -= rate * g * h[j];
        }
      }
    }
    const auto got = values("out.weight");
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], moved[i], 2e-6 * (reduce_sum ? 24 : 1)) << i;
    }
  }
}

// In a head, the loss of each row is its loss without weights times its weight.
TEST(WeightedLoss, IsTheLossOfTheRowTimesItsWeightInAHead) {
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16}) {
    std::vector<std::vector<float>> losses;
    std::vector<int32_t> labels(48);
    std::vector<std::vector<float>> hits;
    for (const bool weighted : {false, true}) {
      const testing::ModelOptions options{
          .classes = 130, .head = true, .cosine = true, .precision = precision, .weighted = weighted};
      const testing::Prepared prepared = testing::prepare_for(testing::make_module(options));
      const auto program = testing::make_program(prepared, {.devices = 2, .threads = 2, .shards = 2}).value();
      const auto devices = make_cpu_devices(program.threads);
      const auto session = Session::create(prepared.module, program, *devices, {.isa = prepared.isa}).value();
      session->state().initialise(3);
      ASSERT_TRUE(session->weights_changed().ok());
      testing::SyntheticRows rows(prepared.module.graph, options, 1000);
      ASSERT_TRUE(rows.start(0, session->ring()).ok());
      ASSERT_TRUE(rows.wait(0).ok());
      ASSERT_TRUE(session->step(0, 0.1, 0).ok());
      std::memcpy(labels.data(), session->ring()[0].inputs[1], 48 * sizeof(int32_t));
      for (const auto& [value, to] : {std::pair(prepared.module.train.loss[0].rows, &losses),
                                      std::pair(prepared.module.train.metrics[0].value, &hits)}) {
        to->emplace_back(48);
        ASSERT_TRUE(session->read_rows(value, std::as_writable_bytes(std::span(to->back()))).ok());
      }
    }
    EXPECT_EQ(hits[0], hits[1]) << "metrics count all rows alike";
    for (size_t row = 0; row < 48; ++row) {
      const float weight = testing::test_weight(labels[row]);
      EXPECT_NEAR(losses[1][row], losses[0][row] * weight, 1e-6F * std::abs(losses[1][row])) << row;
    }
  }
}

}  // namespace
}  // namespace xrun::runtime

namespace xrun::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A table of three kinds with 60, 20 and 10 rows.
class LongTail : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string table = "width,height,kind\n";
    for (int i = 0; i < 90; ++i) {
      const int kind = i % 9 < 6 ? 0 : i % 9 < 8 ? 1 : 2;
      table += std::to_string(kind + 0.01 * (i % 7)) + "," + std::to_string(1 - kind + 0.02 * (i % 5)) + "," +
               (kind == 0   ? "ant"
                : kind == 1 ? "bee"
                            : "fly") +
               "\n";
    }
    directory_.write("t.csv", table);
    directory_.write("w.csv", "class,weight\nant,1\nbee,2\nfly,8\n");
    directory_.write("m.xgraph", model("logits = x -> linear(8) -> relu -> linear(3)\n  output logits",
                                       "softmax_ce(logits, label)", "accuracy(logits, label)"));
    directory_.write("head.xgraph", model("head kind = x -> linear(8) -> relu -> cosine_classifier(3)",
                                          "arcface(kind, label, margin=0.1, scale=8)", "accuracy(kind, label)"));
  }
  static std::string model(const std::string& layers, const std::string& loss, const std::string& metric) {
    return "xgraph 1\n\nmodel m {\n  input x: f32[N, 2]\n  " + layers + R"(
}

data d {
  source train = csv("t.csv", header=true)
  source test  = csv("t.csv", header=true)

  x     = columns(0..2)
  label = column("kind")
}

train t {
  batch     = 24
  norm_rows = 4
  epochs    = 8
  loss      = )" +
           loss + "\n  metrics   = [" + metric + R"(]
  optimizer = sgd(momentum=0.9)
  lr        = 0.1
}
)";
  }
  CommandResult run(const std::vector<std::string>& words, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return run_xrun(all, {.directory = directory_.path()});
  }
  // Trains deterministically with these flags and returns the events.
  std::vector<json> train(const std::string& file, const std::string& place, const std::vector<std::string>& flags) {
    const auto result = run({"train", file, "--deterministic", "--progress", "json", "-C", place}, flags);
    EXPECT_EQ(result.exit, 0) << result.err;
    std::vector<json> events;
    std::istringstream in(result.out);
    for (std::string line; std::getline(in, line);) {
      events.push_back(json::parse(line));
    }
    return events;
  }
  static std::string digest(const std::vector<json>& events) {
    return events.empty() || events.back().at("t") != "end" ? "" : events.back().at("weights").get<std::string>();
  }
  TemporaryDirectory directory_;
};

const std::vector<std::string> kSets[] = {
    {"--set", "train.class_weights=inverse_frequency"},
    {"--set", "train.class_weights=csv(\"w.csv\")"},
    {"--set", "train.order=balanced"},
    {"--set", "train.order=balanced", "--set", "train.class_weights=csv(\"w.csv\")"},
};

std::vector<std::string> with(std::vector<std::string> flags, const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

TEST_F(LongTail, EveryPlanGivesTheSameBits) {
  for (const std::string file : {"m.xgraph", "head.xgraph"}) {
    SCOPED_TRACE(file);
    auto weights = [&, runs = 0](std::vector<std::string> flags, const std::vector<std::string>& plan) mutable {
      flags.insert(flags.end(), {"--set", "train.epochs=2"});
      return digest(train(file, file + std::to_string(++runs), with(flags, plan)));
    };
    std::set<std::string> digests{weights({}, {"--devices", "1"})};
    for (size_t i = 1; i < std::size(kSets); ++i) {
      EXPECT_TRUE(digests.insert(weights(kSets[i], {"--devices", "1"})).second) << kSets[i].back();
    }
    EXPECT_FALSE(digests
                     .insert(weights(kSets[3], {"--devices", "2", "--set", "schedule.stages=2", "--set",
                                                "schedule.micro_batches=3", "--set", "schedule.pipeline=one_f_one_b"}))
                     .second);
    EXPECT_FALSE(digests
                     .insert(weights(kSets[3], {"--devices", "2", "--set", "schedule.replicas=2", "--set",
                                                "schedule.micro_batches=2"}))
                     .second);
    EXPECT_EQ(digests.size(), 4U) << "each setting changes what is learned";
  }
}

TEST_F(LongTail, AStoppedRunResumesAndEndsWithTheSameWeights) {
  for (const std::string file : {"m.xgraph", "head.xgraph"}) {
    for (size_t i = 1; i < std::size(kSets); ++i) {
      SCOPED_TRACE(file + " " + kSets[i].back());
      const std::string place = file + std::to_string(i);
      const std::vector<std::string>& flags = kSets[i];
      const std::string whole = digest(train(file, place + "whole", flags));
      train(file, place + "parts", with(flags, {"--steps", "7"}));  // 168 samples, where an epoch has 90
      EXPECT_EQ(digest(train(file, place + "parts", flags)), whole);
    }
  }
}

TEST_F(LongTail, ARunWithAnotherSettingIsNotResumed) {
  train("m.xgraph", "c", with(kSets[0], {"--steps", "2"}));
  const auto other = run({"train", "m.xgraph", "--deterministic", "-C", "c"}, kSets[1]);
  EXPECT_EQ(other.exit, 1);
  EXPECT_THAT(other.err, AllOf(HasSubstr("XG0701"),
                               HasSubstr("`train.class_weights` was inverse_frequency, and is csv(\"w.csv\") now")));
  const auto none = run({"train", "m.xgraph", "--deterministic", "-C", "c"});
  EXPECT_THAT(none.err, HasSubstr("`train.class_weights` was inverse_frequency, and is none now"));
  train("m.xgraph", "o", with(kSets[2], {"--steps", "2"}));
  const auto order = run({"train", "m.xgraph", "--deterministic", "-C", "o"});
  EXPECT_THAT(order.err, HasSubstr("`train.order` was balanced, and is shuffled now"));
}

TEST_F(LongTail, EvaluationNeedsNoTableOfWeights) {
  train("m.xgraph", "c", with(kSets[1], {"--steps", "4"}));
  std::filesystem::remove(directory_.path() + "/w.csv");
  // The evaluation may name the model's file, which here has other settings, or leave it out.
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"eval", "c/ckpt/t/latest"}, {"eval", "m.xgraph", "c/ckpt/t/latest"}}) {
    const auto eval = run(words);
    EXPECT_EQ(eval.exit, 0) << eval.err;
    EXPECT_THAT(eval.out, HasSubstr("test"));
  }
}

TEST_F(LongTail, TheReportedLossIsTheWeightedMean) {
  // With a learning rate of 0 the weights do not change, so an epoch has the losses of all samples, each once.
  const auto loss = [&](const std::string& place, const std::vector<std::string>& flags) {
    double sum = 0;
    int steps = 0;
    for (const json& event :
         train("m.xgraph", place,
               with(flags, {"--set", "train.lr=0", "--set", "train.log.every=1 steps", "--set", "train.batch=90",
                            "--set", "train.norm_rows=9", "--set", "train.epochs=1"}))) {
      if (event.at("t") == "step") {
        sum += event.at("loss").get<double>();
        ++steps;
      }
    }
    EXPECT_EQ(steps, 1);
    return sum;
  };
  // With w = 90 / n for one class and 0 for the others, the loss is the mean loss of that class.
  const int counts[] = {60, 20, 10};
  double plain = 0;
  double weighted = 0;
  double inverse = 0;
  for (int c = 0; c < 3; ++c) {
    const std::string name = "only" + std::to_string(c);
    directory_.write(name + ".csv", "0," + std::to_string(c == 0) + "\n1," + std::to_string(c == 1) + "\n2," +
                                        std::to_string(c == 2) + "\n");
    const double mean = loss(name, {"--set", "train.class_weights=csv(\"" + name + ".csv\")"});
    plain += mean * counts[c] / 90;
    weighted += mean * counts[c] * (c == 0 ? 1 : c == 1 ? 2 : 8) / 180;  // 60 + 2 · 20 + 8 · 10
    inverse += mean / 3;
  }
  EXPECT_NEAR(loss("plain", {}), plain, 1e-5);
  EXPECT_NEAR(loss("weighted", kSets[1]), weighted, 1e-5);
  EXPECT_NEAR(loss("inverse", kSets[0]), inverse, 1e-5);
}

TEST_F(LongTail, FaultsAreReportedBeforeTraining) {
  directory_.write("w.csv", "ant,1\nbee,x\nfly,6\n");
  for (const char* command : {"plan", "train"}) {
    const auto result = run({command, "m.xgraph"}, kSets[1]);
    EXPECT_EQ(result.exit, 1) << command;
    EXPECT_THAT(result.err, AllOf(HasSubstr("XG0412"), HasSubstr("w.csv:2: column 1 (`1`) is \"x\", not a number")))
        << command;
  }
  const auto check = run({"check", "--data", "m.xgraph"}, kSets[1]);
  EXPECT_EQ(check.exit, 1);
  EXPECT_THAT(check.err, HasSubstr("w.csv:2: column 1"));
  directory_.write("w.csv", "ant,1\nbea,3\nfly,6\n");
  const auto unknown = run({"train", "m.xgraph", "-C", "c"}, kSets[1]);
  EXPECT_EQ(unknown.exit, 1);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("XG0402"), HasSubstr("w.csv:2: the training data have no class `bea`"),
                                 HasSubstr("classes are ant, bee, fly")));
  std::filesystem::remove(directory_.path() + "/w.csv");
  for (const char* command : {"plan", "train"}) {
    EXPECT_THAT(run({command, "m.xgraph"}, kSets[1]).err, HasSubstr("XG0401")) << command;
  }
  EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/ckpt"));
}

TEST_F(LongTail, ShowPrintsTheSettings) {
  EXPECT_THAT(run({"show", "m.xgraph"}, with(kSets[3], {"--emit", "checked"})).out,
              AllOf(HasSubstr("  order = balanced\n"), HasSubstr("  class_weights = csv(\"w.csv\")\n")));
}

}  // namespace
}  // namespace xrun::testing
