// Kernels of GPUs have the bits of the interpreter and of the CPU's compiler: each operation on special values,
// constants near denormal numbers, random expressions, all types of operands, any number of elements, and results that
// replace operands.
#include "tests/gpu_loops/gpu_runs.h"
#include "tests/support/random_expr.h"

namespace xrun::ops {
namespace {

constexpr int kFirst = static_cast<int>(ScalarOp::kAdd);
constexpr int kLast = static_cast<int>(ScalarOp::kF16);

// Returns a loop over two operands of one type and one number for all elements.
LoopForm form_of(ScalarExpr expr, DType dtype = DType::kF32) {
  LoopForm form;
  expr.prune();
  form.outputs.assign(expr.results().size(), dtype);
  form.expr = std::move(expr);
  form.inputs = {loop_input(dtype), loop_input(dtype), LoopInput::kUniform};
  return form;
}

Bits narrowed(const std::vector<float>& values, DType dtype) {
  if (dtype == DType::kF32) {
    return bits_of_all(values);
  }
  std::vector<uint16_t> halves;
  for (const float value : values) {
    halves.push_back(dtype == DType::kBF16 ? to_bf16(value).bits : to_f16(value).bits);
  }
  return bits_of_all(halves);
}

bool has_extremes(const ScalarExpr& expr) {
  return std::ranges::any_of(
      expr.nodes(), [](const ScalarNode& node) { return node.op == ScalarOp::kMin || node.op == ScalarOp::kMax; });
}

// Sets denormal numbers to 0 with their sign.
Bits flushed(Bits bits, DType dtype) {
  const size_t size = static_cast<size_t>(size_of(dtype));
  for (size_t at = 0; dtype != DType::kF16 && at < bits.size(); at += size) {
    uint32_t number = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&number) + (4 - size), bits.data() + at, size);
    if ((number & 0x7F800000) == 0) {
      number &= 0x80000000;
      std::memcpy(bits.data() + at, reinterpret_cast<std::byte*>(&number) + (4 - size), size);
    }
  }
  return bits;
}

// Compares a kernel on `elements` random operands with the interpreter and with the CPU's compiler. The minimum and
// maximum instructions of x86, which only the CPU's compiler uses, flush a denormal number that they pass on.
void compare(const LoopForm& form, int64_t elements, std::mt19937& random, const GpuRunOptions& options = {}) {
  const DType dtype = form.outputs[0];
  std::vector<Bits> inputs;
  for (const LoopInput input : form.inputs) {
    const bool one = input == LoopInput::kUniform;
    inputs.push_back(
        narrowed(random_numbers(random, one ? 1 : static_cast<size_t>(elements)), one ? DType::kF32 : dtype));
  }
  const std::vector<size_t> sizes(form.outputs.size(), static_cast<size_t>(elements * size_of(dtype)));
  const GpuLoop loop = gpu_loop(form);
  const auto run = run_kernel(loop, inputs, sizes, elements, options);
  ASSERT_TRUE(run.has_value());
  for (const bool compiled : {false, true}) {
    const std::vector<Bits> wanted = run_on_cpu(form, inputs, sizes, elements, compiled);
    for (size_t r = 0; r < sizes.size(); ++r) {
      const bool flushes = compiled && has_extremes(form.expr);
      const int64_t at = flushes ? first_difference(dtype, flushed(run->results[r], dtype), flushed(wanted[r], dtype))
                                 : first_difference(dtype, run->results[r], wanted[r]);
      const auto operand = [&](size_t k) {
        float value = 0;
        if (at >= 0 && dtype == DType::kF32) {
          std::memcpy(&value, inputs[k].data() + (k == 2 ? 0 : at * 4), sizeof value);
        }
        return value;
      };
      ASSERT_EQ(at, -1) << describe(loop, options.target) << "\nresult " << r << " of " << elements << " elements, "
                        << (compiled ? "compiled" : "interpreted") << ", at " << operand(0) << " " << operand(1) << " "
                        << operand(2);
    }
  }
}

TEST_F(GpuLoops, HaveTheBitsOfTheCpuForSpecialValues) {
  std::mt19937 random(1);
  for (int op = kFirst; op <= kLast; ++op) {
    const auto known = static_cast<ScalarOp>(op);
    ScalarExpr expr;
    expr.set_results({expr.make(known, expr.input(0), arity_of(known) > 1 ? expr.input(1) : ScalarId(),
                                arity_of(known) > 2 ? expr.input(2) : ScalarId())});
    compare(form_of(expr), 4000, random);
  }
}

// Operations without arithmetic keep denormal numbers.
TEST_F(GpuLoops, HaveTheBitsOfTheCpuForDenormalNumbersThatPassThrough) {
  std::mt19937 random(4);
  for (const char* text : {"-x0", "abs(x0)", "select(x0 < x1, -x0, x1)", "min(x0, x1)", "max(-x0, x1)", "sign(x0)",
                           "x0, -x1", "bf16(x0)", "f16(-x0)", "-(x0 + x1)"}) {
    auto expr = parse_scalar_expr(text);
    if (!expr.ok()) {  // the parser accepts only the form in which expressions are printed
      ADD_FAILURE() << text << ": " << expr.error().message;
      continue;
    }
    compare(form_of(*expr), 2000, random);
  }
}

TEST_F(GpuLoops, HaveTheBitsOfTheCpuForConstantsThatLeadToDenormalNumbers) {
  std::mt19937 random(3);
  for (int op = kFirst; op <= kLast; ++op) {
    const auto known = static_cast<ScalarOp>(op);
    const auto arity = static_cast<size_t>(arity_of(known));
    ScalarExpr expr;
    std::vector<ScalarId> results;
    for (const double number :
         {1e-45, -1e-45, 1e-40, 1.2e-38, -1.2e-38, 1e-37, 1e-31, 1e31, 1.7e38, -3e38, 1e40, 3.0, 0.5}) {
      for (size_t place = 0; arity > 1 && place < arity; ++place) {
        std::vector<ScalarId> args{expr.input(0), expr.input(1), arity > 2 ? expr.input(2) : ScalarId()};
        args[place] = expr.constant(number);
        results.push_back(expr.make(known, args[0], args[1], args[2]));
      }
    }
    if (!results.empty()) {
      expr.set_results(results);
      compare(form_of(expr), 300, random);
    }
  }
}

TEST_F(GpuLoops, HaveTheBitsOfTheCpuForRandomExpressions) {
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const ScalarExpr expr = testing::random_expr(random, 1 + static_cast<int>(seed % 40));
    compare(form_of(expr, kTypes[seed % 3]), 1 + random() % 600, random,
            {.target = seed % 2 == 0 ? GpuTarget::kSm80 : GpuTarget::kSm90});
    if (HasFatalFailure()) {
      return;
    }
  }
}

TEST_F(GpuLoops, ComputeAnyNumberOfElements) {
  std::mt19937 random(2);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const int64_t n : {1, 2, 31, 32, 33, 255, 256, 257, 600}) {
      compare(form_of(*parse_scalar_expr("x0 * x2 + x1, x1 - x0"), dtype), n, random);
    }
  }
}

// A kernel writes exactly its elements: the PTX machine reports an access beyond a buffer.
TEST_F(GpuLoops, GiveTheSameBitsWithIndicesOf64BitsAndWithNumbersAsArguments) {
  std::mt19937 random(5);
  const LoopForm form = form_of(*parse_scalar_expr("exp(x0) * x2 + x1"));
  const std::vector<Bits> inputs{bits_of_all(random_numbers(random, 700)), bits_of_all(random_numbers(random, 700)),
                                 bits_of_all(std::vector<float>{1.5F})};
  const auto wanted = run_kernel(gpu_loop(form), inputs, {2800}, 700);
  GpuLoop other = gpu_loop(form);
  other.large = true;
  other.inputs[2].reach = GpuOperand::Reach::kNumber;
  const auto run = run_kernel(other, inputs, {2800}, 700);
  ASSERT_TRUE(wanted && run);
  EXPECT_EQ(first_difference<float>(run->results[0], wanted->results[0]), -1);
}

// `previous = weight` and `weight = ...` both read the old weight.
TEST_F(GpuLoops, AResultMayBeTheMemoryOfAnOperand) {
  const GpuLoop loop = gpu_loop(form_of(*parse_scalar_expr("x0 + x1 * x2, x0")));
  for (const int64_t n : {5, 300}) {
    std::vector<float> weight;
    for (int64_t i = 0; i < n; ++i) {
      weight.push_back(static_cast<float>(i + 1));
    }
    const std::vector<Bits> inputs{bits_of_all(weight), bits_of_all(std::vector<float>(static_cast<size_t>(n), 0.5F)),
                                   bits_of_all(std::vector<float>{2})};
    const auto run = run_kernel(loop, inputs, {inputs[0].size(), inputs[0].size()}, n, {.in_place = {0, 1}});
    ASSERT_TRUE(run.has_value());
    for (float& w : weight) {
      w += 1;
    }
    EXPECT_EQ(run->results[0], bits_of_all(weight)) << n;
    EXPECT_EQ(run->results[1], inputs[0]) << n;
  }
}

}  // namespace
}  // namespace xrun::ops
