// The kernel of each function of one number has the bits of the interpreter on 10^5 numbers: random bits, special
// values, and numbers from its common range.
#include "tests/gpu_loops/gpu_runs.h"

namespace xrun::ops {
namespace {

constexpr size_t kNumbers = 100'000;

// A third of the numbers has random bits, which include NaN, infinities and denormal numbers of all sizes.
std::vector<float> numbers_of(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values = random_numbers(random, kNumbers);
  for (size_t i = 0; i < values.size(); i += 3) {
    values[i] = std::bit_cast<float>(static_cast<uint32_t>(random()));
  }
  for (size_t i = 1; i < values.size(); i += 60) {
    values[i] = std::bit_cast<float>(static_cast<uint32_t>(random()) & 0x807FFFFF);  // denormal
  }
  return values;
}

class GpuFunctions : public ::testing::TestWithParam<ScalarOp> {};

TEST_P(GpuFunctions, HaveTheBitsOfTheInterpreter) {
  if (open_jit().compiler.empty()) {
    GTEST_SKIP() << "no compiler";
  }
  const auto seed = static_cast<uint32_t>(GetParam());
  SCOPED_TRACE("seed " + std::to_string(seed));
  LoopForm form;
  const bool second = arity_of(GetParam()) > 1;
  form.expr.set_results({form.expr.make(GetParam(), form.expr.input(0), second ? form.expr.input(1) : ScalarId())});
  form.inputs.assign(second ? 2 : 1, LoopInput::kF32);
  form.outputs = {DType::kF32};
  std::vector<Bits> inputs;
  for (size_t k = 0; k < form.inputs.size(); ++k) {
    inputs.push_back(bits_of_all(numbers_of(100 * static_cast<uint32_t>(k) + seed)));
  }
  const std::vector<size_t> sizes{inputs[0].size()};
  const auto run = run_kernel(gpu_loop(form), inputs, sizes, kNumbers, {.races = false});
  ASSERT_TRUE(run.has_value());
  const int64_t at = first_difference<float>(run->results[0], run_on_cpu(form, inputs, sizes, kNumbers, false)[0]);
  float x = 0;
  std::memcpy(&x, inputs[0].data() + (at < 0 ? 0 : at) * 4, sizeof x);
  EXPECT_EQ(at, -1) << name_of(GetParam()) << " of " << x;
  RecordProperty("thread_instructions_per_element", static_cast<int>(run->thread_instructions / kNumbers));
}

INSTANTIATE_TEST_SUITE_P(All, GpuFunctions,
                         ::testing::Values(ScalarOp::kNeg, ScalarOp::kExp, ScalarOp::kLog, ScalarOp::kSqrt,
                                           ScalarOp::kAbs, ScalarOp::kSign, ScalarOp::kFloor, ScalarOp::kErf,
                                           ScalarOp::kSin, ScalarOp::kCos, ScalarOp::kAcos, ScalarOp::kTanh,
                                           ScalarOp::kSigmoid, ScalarOp::kBf16, ScalarOp::kF16, ScalarOp::kDiv,
                                           ScalarOp::kPow));

}  // namespace
}  // namespace xrun::ops
