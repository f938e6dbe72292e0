// Trainings with `mixup` and `cutmix`: the loss and its gradient, and whole runs over plans, stops and class weights.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "graph/layouts/mixed_labels.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/train/session/session.h"
#include "tests/cases/case_files.h"
#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/small_models.h"

namespace xrun::runtime {
namespace {

constexpr size_t kRows = 24;
constexpr size_t kInput = 6;
constexpr size_t kWidth = 5;
constexpr size_t kClasses = 4;

// A session of one linear layer after another, whose rows are mixed.
class MixedSession {
 public:
  MixedSession() {
    Module module = testing::make_module(
        {.layers = 0, .input = kInput, .width = kWidth, .classes = kClasses, .batch = kRows, .arguments = {}});
    module.data.bindings.push_back(
        {.target = "x", .field = "x", .stages = {{"mixup", {{"alpha", 0.2}, {"one_label", false}}, {}}}});
    prepared_ = testing::prepare_for(module);
    program_ = testing::make_program(prepared_, {.micro_batches = 2}).value();
    devices_ = make_cpu_devices(program_.threads);
    session_ = Session::create(prepared_.module, program_, *devices_, {.isa = prepared_.isa}).value();
    session_->state().initialise(3);
    EXPECT_TRUE(session_->weights_changed().ok());
  }

  // The memory of an input of the batch.
  template <class T>
  std::span<T> input(const std::string& name, size_t count) {
    const auto& inputs = prepared_.module.graph.inputs;
    const auto found = std::ranges::find(inputs, name, &NamedValue::name);
    EXPECT_NE(found, inputs.end()) << name;
    return {reinterpret_cast<T*>(session_->ring()[0].inputs[static_cast<size_t>(found - inputs.begin())]), count};
  }
  std::vector<double> weights(std::string_view name) {
    for (const StateTensor& tensor : session_->state().tensors()) {
      if (tensor.name == name) {
        std::vector<float> numbers(static_cast<size_t>(tensor.rows() * tensor.row_bytes()) / sizeof(float));
        session_->state().read_rows(tensor, 0, tensor.rows(), reinterpret_cast<std::byte*>(numbers.data()));
        return {numbers.begin(), numbers.end()};
      }
    }
    ADD_FAILURE() << name;
    return {};
  }
  std::vector<float> read(ValueId value) {
    std::vector<float> rows(kRows);
    EXPECT_TRUE(session_->read_rows(value, std::as_writable_bytes(std::span(rows))).ok());
    return rows;
  }
  const TrainSpec& train() const { return prepared_.module.train; }
  Session& session() { return *session_; }

 private:
  testing::Prepared prepared_;
  planner::Program program_;
  std::unique_ptr<DeviceSet> devices_;
  std::unique_ptr<Session> session_;
};

// The loss of a row is share(a) · ce(a) + share(b) · ce(b), and its gradient by the logits softmax - share(a) e_a -
// share(b) e_b.
TEST(MixedRuns, LossAndGradientMatchAReferenceInF64) {
  constexpr uint64_t kSeed = 9;
  MixedSession mixed;
  const auto x = mixed.input<float>("x", kRows * kInput);
  const auto labels = mixed.input<int32_t>("label", kRows);
  const auto partners = mixed.input<int32_t>(partner_label("label"), kRows);
  const auto shares = mixed.input<float>(label_share("x"), kRows);
  const auto partner_shares = mixed.input<float>(partner_share("x"), kRows);
  RandomStream(kSeed, 1).fill_normal(0, x);
  for (size_t row = 0; row < kRows; ++row) {
    const RandomStream random(kSeed, 2, row);
    labels[row] = static_cast<int32_t>(random.below(0, kClasses));
    partners[row] = static_cast<int32_t>(random.below(1, kClasses));
    shares[row] = 0.5F + 0.5F * random.uniform(20);
    partner_shares[row] = 1 - shares[row];
  }
  const auto w1 = mixed.weights("stem.weight"), b1 = mixed.weights("stem.bias");
  const auto w = mixed.weights("out.weight"), b = mixed.weights("out.bias");
  const double rate = 0.5;
  ASSERT_TRUE(mixed.session().step(0, rate, 0).ok());
  const auto losses = mixed.read(mixed.train().loss[0].rows);
  const auto hits = mixed.read(mixed.train().metrics[0].value);
  std::vector<double> moved = w;
  for (size_t row = 0; row < kRows; ++row) {
    double h[kWidth], z[kClasses], sum = 0;
    for (size_t j = 0; j < kWidth; ++j) {
      h[j] = b1[j];
      for (size_t i = 0; i < kInput; ++i) {
        h[j] += w1[j * kInput + i] * static_cast<double>(x[row * kInput + i]);
      }
    }
    for (size_t c = 0; c < kClasses; ++c) {
      z[c] = b[c];
      for (size_t j = 0; j < kWidth; ++j) {
        z[c] += w[c * kWidth + j] * h[j];
      }
      sum += std::exp(z[c]);
    }
    const auto own = static_cast<size_t>(labels[row]);
    const auto other = static_cast<size_t>(partners[row]);
    const auto share = static_cast<double>(shares[row]);
    const auto rest = static_cast<double>(partner_shares[row]);
    EXPECT_NEAR(losses[row], share * (std::log(sum) - z[own]) + rest * (std::log(sum) - z[other]), 1e-5);
    EXPECT_EQ(hits[row], std::ranges::max_element(z) - z == labels[row] ? 1 : 0) << "accuracy counts the label";
    for (size_t c = 0; c < kClasses; ++c) {
      const double g = (std::exp(z[c]) / sum - (c == own ? share : 0) - (c == other ? rest : 0)) / kRows;
      for (size_t j = 0; j < kWidth; ++j) {
        moved[c * kWidth + j] -= rate * g * h[j];
      }
    }
  }
  const auto got = mixed.weights("out.weight");
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], moved[i], 2e-6) << i;
  }
}

}  // namespace
}  // namespace xrun::runtime

namespace xrun::testing {
namespace {

using nlohmann::json;

// Pictures of three kinds of animals, 24 in all.
class MixedAnimals : public ::testing::Test {
 protected:
  MixedAnimals() {
    write_animals(dir_, "pictures", 8);
    write("dense.xgraph", "mixup(0.4) -> cutmix(1, p=0.8)", "logits = feature -> linear(3)\n  output logits",
          "softmax_ce(logits, label)", "accuracy(logits, label)");
    write("plain.xgraph", "normalize(mean=0, std=1)", "logits = feature -> linear(3)\n  output logits",
          "softmax_ce(logits, label)", "accuracy(logits, label)");
    const std::string one = "mixup(0.4, one_label=true) -> cutmix(1, one_label=true)";
    write("head.xgraph", one, "head id = cosine_classifier(feature, 3)", "arcface(id, label, margin=0.1, scale=8)",
          "accuracy(id, label)");
    write("sampled.xgraph", one, "head id = cosine_classifier(feature, 300)", "cosface(id, label, margin=0.1, scale=8)",
          "accuracy(id, label)", "active_classes = sample(50%)");
  }

  void write(const std::string& name, const std::string& stages, const std::string& model, const std::string& loss,
             const std::string& metric, const std::string& settings = "") {
    dir_.write(name, R"(xgraph 1

model m {
  input image: f32[N, 3, 8, 8]

  feature = image -> conv(8, 3, stride=2) -> bn -> relu -> flatten -> linear(16)
  output feature
  )" + model + R"(
}

data d {
  source train = folder("pictures")
  source test  = folder("pictures")

  image = file -> decode(8) -> random_flip -> scale(1 / 255) -> )" +
                         stages + R"(
}

train t {
  batch     = 12
  norm_rows = 3
  steps     = 9
  loss      = )" + loss + "\n  metrics   = [" +
                         metric + "]\n  optimizer = sgd(momentum=0.9)\n  lr        = 0.05\n  " + settings + "\n}\n");
  }
  // Trains deterministically and returns the digest of the weights.
  std::string train(const std::string& file, const std::string& place, const std::vector<std::string>& flags) {
    std::vector<std::string> words{"train", file, "--deterministic", "--progress", "json", "-C", place};
    words.insert(words.end(), flags.begin(), flags.end());
    const CommandResult result = run_xrun(words, {.directory = dir_.path()});
    EXPECT_EQ(result.exit, 0) << result.err;
    std::istringstream in(result.out);
    json last;
    for (std::string line; std::getline(in, line);) {
      last = json::parse(line);
    }
    return last.value("t", "") == "end" ? last.at("weights").get<std::string>() : "";
  }

  TemporaryDirectory dir_;
};

TEST_F(MixedAnimals, EveryPlanGivesTheSameBits) {
  std::set<std::string> digests;
  for (const std::string file : {"dense.xgraph", "head.xgraph", "sampled.xgraph", "plain.xgraph"}) {
    SCOPED_TRACE(file);
    const std::string first = train(file, file + "1", {"--devices", "1"});
    EXPECT_NE(first, "");
    EXPECT_TRUE(digests.insert(first).second);
    EXPECT_EQ(train(file, file + "2",
                    {"--devices", "2", "--set", "schedule.stages=2", "--set", "schedule.micro_batches=4", "--set",
                     "schedule.pipeline=one_f_one_b"}),
              first);
    EXPECT_EQ(train(file, file + "3",
                    {"--devices", "2", "--set", "schedule.replicas=2", "--set", "schedule.micro_batches=2"}),
              first);
  }
}

// The partner of a row is in the batch of the whole update, so that accumulated batches are one large batch.
TEST_F(MixedAnimals, AccumulatedBatchesAreOneLargeBatch) {
  const std::string whole = train("dense.xgraph", "whole", {"--set", "train.batch=12"});
  EXPECT_EQ(train("dense.xgraph", "parts", {"--set", "train.batch=6", "--set", "train.grad_accumulation=2"}), whole);
}

TEST_F(MixedAnimals, AStoppedRunResumesAndEndsWithTheSameWeights) {
  for (const std::string file : {"dense.xgraph", "sampled.xgraph"}) {
    const std::string whole = train(file, file + "w", {"--devices", "1"});
    train(file, file + "p", {"--devices", "1", "--steps", "5"});  // 60 samples, where an epoch has 24
    EXPECT_EQ(train(file, file + "p", {"--devices", "2", "--set", "schedule.replicas=2"}), whole) << file;
  }
}

TEST_F(MixedAnimals, ShowPrintsTheStages) {
  const CommandResult shown = run_xrun({"show", "dense.xgraph", "--emit", "checked"}, {.directory = dir_.path()});
  EXPECT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(shown.out, ::testing::HasSubstr("mixup("));
  EXPECT_THAT(shown.out, ::testing::HasSubstr("cutmix("));
}

TEST_F(MixedAnimals, ClassWeightsCountForBothLabels) {
  dir_.write("w.csv", "cat,1\ndog,3\nowl,2\n");
  const std::vector<std::string> weighs{"--set", "train.class_weights=csv(\"w.csv\")"};
  const std::string first = train("dense.xgraph", "one", weighs);
  EXPECT_NE(first, train("dense.xgraph", "none", {}));
  EXPECT_EQ(train("dense.xgraph", "two", {weighs[0], weighs[1], "--devices", "2", "--set", "schedule.stages=2"}),
            first);
}

}  // namespace
}  // namespace xrun::testing
