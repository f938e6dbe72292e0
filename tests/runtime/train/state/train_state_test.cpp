// The names, rows, initial values and digest of a training state, over shards and replicas.
#include "runtime/train/state/train_state.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/cpu/cpu_device.h"
#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/small_models.h"

namespace xrun::runtime {
namespace {

using testing::make_module;
using testing::make_program;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::prepare_for;
using testing::Prepared;

struct Made {
  planner::Program program;
  std::unique_ptr<DeviceSet> devices;
  BoundMemory memory;
  std::unique_ptr<TrainState> state;
};

std::unique_ptr<Made> make_state(const Prepared& prepared, const PlanChoice& choice) {
  auto made = std::make_unique<Made>();
  made->program = make_program(prepared, choice).value();
  made->devices = make_cpu_devices(made->program.threads);
  made->memory = BoundMemory::map(made->program, *made->devices).value();
  made->state = std::make_unique<TrainState>(prepared.module, made->program, made->memory, *made->devices);
  return made;
}

class TrainStateTest : public ::testing::Test {
 protected:
  ModelOptions options_{.classes = 333, .head = true, .cosine = true};
  Prepared prepared_ = prepare_for(make_module(options_));
};

TEST_F(TrainStateTest, TensorsAreNamedByParameterAndOptimizerState) {
  const auto made = make_state(prepared_, {.devices = 2, .threads = 2, .shards = 3});
  std::vector<std::string> names;
  for (const StateTensor& tensor : made->state->tensors()) {
    names.push_back(tensor.name);
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const char* name : {"id.weight", "id.weight.velocity", "layer0.bn.running_mean", "layer0.bn.weight.velocity",
                           "layer2.linear.weight", "stem.bias"}) {
    EXPECT_NE(made->state->find(name), nullptr) << name;
  }
  EXPECT_EQ(made->state->find("layer0.bn.running_mean.velocity"), nullptr);
  EXPECT_EQ(made->state->find("id.weight")->pieces.size(), 3u);
  EXPECT_EQ(made->state->find("id.weight")->head, "id");
  EXPECT_EQ(made->state->find("stem.weight")->head, "");
}

TEST_F(TrainStateTest, InitialValuesDependOnTheSeedAndNotOnThePlan) {
  const auto one = make_state(prepared_, {});
  const auto other =
      make_state(prepared_, {.devices = 4, .threads = 4, .stages = 2, .replicas = 2, .micro_batches = 4, .shards = 4});
  one->state->initialise(5);
  other->state->initialise(5);
  EXPECT_EQ(one->state->weights_digest(), other->state->weights_digest());
  other->state->initialise(6);
  EXPECT_NE(one->state->weights_digest(), other->state->weights_digest());

  const StateTensor& weight = *one->state->find("layer0.linear.weight");
  std::vector<float> values(static_cast<size_t>(weight.rows() * weight.row_bytes() / 4));
  one->state->read_rows(weight, 0, weight.rows(), reinterpret_cast<std::byte*>(values.data()));
  double square = 0;
  for (const float value : values) {
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  const double deviation = std::sqrt(2.0 / static_cast<double>(options_.width));
  EXPECT_NEAR(std::sqrt(square / static_cast<double>(values.size())), deviation, 0.1 * deviation);
}

TEST_F(TrainStateTest, InitialValuesHaveTheSpreadThatTheModelAsksFor) {
  struct Spread {
    Init init;
    double most;
    double deviation;
  };
  // A normal distribution that is truncated at two standard deviations has 0.8796 times the deviation.
  for (const Spread& wanted : {Spread{{.kind = Init::kUniform, .value = 0.3}, 0.3, 0.3 / std::sqrt(3.0)},
                               Spread{{.kind = Init::kTruncNormal, .value = 0.1}, 0.2, 0.08796},
                               Spread{{.kind = Init::kTruncNormal, .value = 0}, 0, 0}}) {
    for (Parameter& parameter : prepared_.module.graph.params) {
      parameter.init = parameter.name == "layer0.linear.weight" ? wanted.init : parameter.init;
    }
    const auto one = make_state(prepared_, {});
    const auto other = make_state(prepared_, {.devices = 2, .threads = 2, .stages = 2, .micro_batches = 2});
    one->state->initialise(5);
    other->state->initialise(5);
    EXPECT_EQ(one->state->weights_digest(), other->state->weights_digest());
    const StateTensor& weight = *one->state->find("layer0.linear.weight");
    std::vector<float> values(static_cast<size_t>(weight.rows() * weight.row_bytes() / 4));
    one->state->read_rows(weight, 0, weight.rows(), reinterpret_cast<std::byte*>(values.data()));
    double square = 0;
    double sum = 0;
    for (const float value : values) {
      EXPECT_LE(std::fabs(value), wanted.most + 1e-7);
      square += static_cast<double>(value) * static_cast<double>(value);
      sum += static_cast<double>(value);
    }
    const auto n = static_cast<double>(values.size());
    EXPECT_NEAR(std::sqrt(square / n), wanted.deviation, 0.05 * wanted.deviation);
    EXPECT_NEAR(sum / n, 0, 0.1 * wanted.deviation);
  }
}

TEST_F(TrainStateTest, ClassRowsInNarrowFormatsHaveTensorsOfTheirOwn) {
  options_.weights = RowFormat::kFp8;
  options_.states = RowFormat::kBf16;
  prepared_ = prepare_for(make_module(options_));
  const auto made = make_state(prepared_, {.devices = 2, .threads = 2, .shards = 3});
  EXPECT_EQ(made->state->find("id.weight")->type.dtype, DType::kF8E4M3);
  EXPECT_EQ(made->state->find("id.weight.velocity")->type.dtype, DType::kBF16);
  EXPECT_EQ(made->state->find("stem.weight")->type.dtype, DType::kF32);
  const StateTensor* scales = made->state->find("id.weight.scale");
  ASSERT_NE(scales, nullptr);
  EXPECT_EQ(scales->role, StateTensor::Role::kScale);
  EXPECT_EQ(scales->type.dims, std::vector<int64_t>{333});
  EXPECT_EQ(scales->pieces.size(), 3u);
  EXPECT_EQ(scales->head, "id");
}

// The rows are drawn from the seed in f32, and each value is rounded to the nearest value of the format.
TEST_F(TrainStateTest, InitialValuesOfNarrowRowsAreThoseOfF32Rounded) {
  const auto values_of = [&](const PlanChoice& choice, std::string* digest) {
    const auto made = make_state(prepared_, choice);
    made->state->initialise(5);
    *digest = made->state->weights_digest();
    const StateTensor& weight = *made->state->find("id.weight");
    std::vector<float> values(static_cast<size_t>(weight.rows() * weight.row_elements()));
    made->state->read_values(weight, 0, weight.rows(), values.data());
    return values;
  };
  std::string digest;
  const std::vector<float> wide = values_of({}, &digest);
  for (const auto& [format, step] :
       std::vector<std::pair<RowFormat, double>>{{RowFormat::kBf16, 0x1p-8}, {RowFormat::kFp8, 0x1p-4}}) {
    options_.weights = format;
    prepared_ = prepare_for(make_module(options_));
    std::string one;
    std::string other;
    const std::vector<float> narrow = values_of({}, &one);
    EXPECT_EQ(values_of({.devices = 3, .threads = 3, .shards = 5}, &other), narrow);
    EXPECT_EQ(one, other);
    EXPECT_NE(one, digest);
    // The bound is half a step of the number itself, plus half of the smallest step at the row's scale.
    const auto dim = static_cast<size_t>(options_.width);
    for (size_t row = 0; row < narrow.size() / dim; ++row) {
      float largest = 0;
      for (size_t i = row * dim; i < (row + 1) * dim; ++i) {
        largest = std::max(largest, std::abs(wide[i]));
      }
      for (size_t i = row * dim; i < (row + 1) * dim; ++i) {
        const double far = std::max(step * std::abs(static_cast<double>(wide[i])),
                                    format == RowFormat::kFp8 ? 0x1p-10 / 224 * static_cast<double>(largest) : 0.0);
        ASSERT_NEAR(narrow[i], wide[i], far) << i;
      }
    }
  }
}

TEST_F(TrainStateTest, ValuesOfNarrowRowsAreWrittenAndReadAcrossShards) {
  options_.weights = RowFormat::kFp8;
  prepared_ = prepare_for(make_module(options_));
  const auto made = make_state(prepared_, {.devices = 2, .threads = 2, .shards = 3});
  const StateTensor& weight = *made->state->find("id.weight");
  std::vector<float> written(static_cast<size_t>(300 * weight.row_elements()));
  for (size_t i = 0; i < written.size(); ++i) {  // fp8 numbers with another scale in each row
    const auto row = static_cast<int>(i / static_cast<size_t>(weight.row_elements()));
    written[i] = std::ldexp(static_cast<float>(8 + i % 8), row % 40 - 20);
  }
  made->state->write_values(weight, 20, 320, written.data());
  std::vector<float> read(written.size());
  made->state->read_values(weight, 20, 320, read.data());
  EXPECT_EQ(read, written);
}

TEST_F(TrainStateTest, TensorsThatAreNotSelectedKeepTheirValues) {
  const auto all = make_state(prepared_, {});
  all->state->initialise(5);
  const auto part = make_state(prepared_, {});
  part->state->initialise(5, [](const StateTensor& tensor) { return tensor.head == "id"; });
  const auto values = [](TrainState& state, const char* name) {
    const StateTensor& tensor = *state.find(name);
    std::vector<float> numbers(static_cast<size_t>(tensor.rows() * tensor.row_bytes() / 4));
    state.read_rows(tensor, 0, tensor.rows(), reinterpret_cast<std::byte*>(numbers.data()));
    return numbers;
  };
  EXPECT_EQ(values(*part->state, "id.weight"), values(*all->state, "id.weight"));
  EXPECT_THAT(values(*part->state, "stem.weight"), ::testing::Each(0.0F));
}

TEST_F(TrainStateTest, RowsAreReadAndWrittenAcrossShards) {
  const auto made = make_state(prepared_, {.devices = 2, .threads = 2, .shards = 3});
  const StateTensor& weight = *made->state->find("id.weight");
  const int64_t width = weight.row_bytes() / 4;
  std::vector<float> written(static_cast<size_t>(300 * width));
  for (size_t i = 0; i < written.size(); ++i) {
    written[i] = static_cast<float>(i);
  }
  made->state->write_rows(weight, 20, 320, reinterpret_cast<const std::byte*>(written.data()));
  std::vector<float> read(written.size());
  made->state->read_rows(weight, 20, 320, reinterpret_cast<std::byte*>(read.data()));
  EXPECT_EQ(read, written);
  std::vector<float> row(static_cast<size_t>(width));
  made->state->read_rows(weight, 200, 201, reinterpret_cast<std::byte*>(row.data()));
  EXPECT_EQ(row[0], static_cast<float>(180 * width));
}

TEST_F(TrainStateTest, ACopyBetweenLayoutsKeepsTheDigest) {
  const auto one = make_state(prepared_, {.devices = 2, .threads = 2, .stages = 2, .shards = 2});
  const auto other = make_state(prepared_, {.devices = 3, .threads = 3, .shards = 7});
  one->state->initialise(5);
  const std::string digest = one->state->weights_digest();
  other->state->initialise(9);
  other->state->copy_from(*one->state);
  EXPECT_EQ(other->state->weights_digest(), digest);
  // A change of one bit in the last class row changes the digest.
  const StateTensor& weight = *other->state->find("id.weight");
  std::vector<std::byte> row(static_cast<size_t>(weight.row_bytes()));
  other->state->read_rows(weight, 332, 333, row.data());
  row[0] ^= std::byte{1};
  other->state->write_rows(weight, 332, 333, row.data());
  EXPECT_NE(other->state->weights_digest(), digest);
}

}  // namespace
}  // namespace xrun::runtime
