// Compiled loops give the bits of interpreted loops: each operation on special values, random expressions, all types of
// operands, lengths that are not a multiple of the lanes, and results that replace inputs. The cache of compiled code
// rejects code that it cannot trust.
#include "ops/jit/element_loop.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/os/cache_file.h"
#include "ops/jit/compiler.h"
#include "ops/jit/kernel_cache.h"
#include "ops/simd/simd.h"
#include "ops/simd/square_sums.h"
#include "tests/ops/op_runner.h"
#include "tests/support/command.h"
#include "tests/support/random_expr.h"

namespace xrun::ops {
namespace {

// Operands with 16 extra elements after those of a test; the extra ones must not change.
struct Operands {
  std::vector<std::vector<float>> inputs;
  std::vector<std::vector<float>> outputs;

  std::vector<const void*> in() const { return {inputs[0].data(), inputs[1].data(), inputs[2].data()}; }
  std::vector<void*> out() { return {outputs[0].data(), outputs[1].data()}; }
};

const std::vector<float>& special_values() {
  static const std::vector<float> values{
      0.0F,   -0.0F,   1.0F,  -1.0F, 0.5F,   -0.5F,    2.0F,      -2.0F,  0.625F, -0.625F, 1e-30F, -1e-30F,
      1e-42F, -1e-42F, 3.0F,  -3.0F, 88.0F,  -88.0F,   88.8F,     -87.4F, 104.0F, -104.0F, 1e9F,   -1e9F,
      1.5e9F, -1.5e9F, 1e20F, 3e38F, -3e38F, INFINITY, -INFINITY, NAN,    0.707F, 0.7072F, 7.5F,   -7.5F};
  return values;
}

Operands random_operands(std::mt19937& random, size_t n) {
  Operands made{std::vector(3, std::vector<float>(n + kLanes)), std::vector(2, std::vector<float>(n + kLanes, 7.0F))};
  std::normal_distribution<float> draw(0, 4);
  for (std::vector<float>& values : made.inputs) {
    for (float& value : values) {
      value = random() % 4 == 0 ? special_values()[random() % special_values().size()] : draw(random);
    }
  }
  return made;
}

// Compares bits, but treats all NaNs as equal, because processors and compilers differ in which operand's NaN they
// return.
template <typename T>
bool same_bits(T a, T b) {
  return (std::isnan(to_float(a)) && std::isnan(to_float(b))) || std::memcmp(&a, &b, sizeof a) == 0;
}

LoopForm form_of(ScalarExpr expr, LoopInput input = LoopInput::kF32, DType output = DType::kF32) {
  LoopForm form;
  form.outputs.assign(expr.results().size(), output);
  form.expr = std::move(expr);
  form.inputs = {input, input, LoopInput::kUniform};
  return form;
}

class CompiledLoop : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > detect_isa()) {
      GTEST_SKIP() << "this processor lacks " << name_of(GetParam());
    }
    if (const JitReport report = open_jit(); report.compiler.empty()) {
      GTEST_SKIP() << (report.failure ? report.failure->message : "XRUN_JIT=off");
    }
  }

  // Computes the first n elements in both ways and compares them. T is the type of inputs 0 and 1 and of the outputs.
  template <typename T>
  void compare(const LoopForm& form, size_t n, std::mt19937& random) {
    Operands compiled = random_operands(random, n);
    Operands interpreted = compiled;
    const ElementLoop fast(form, GetParam(), true);
    const ElementLoop slow(form, GetParam(), false);
    ASSERT_TRUE(fast.compiled()) << describe(form, GetParam());
    ASSERT_FALSE(slow.compiled());
    EXPECT_EQ(fast.scratch_bytes(), slow.scratch_bytes());
    const Memory scratch(fast.scratch_bytes());
    fast.run(compiled.in().data(), compiled.out().data(), static_cast<int64_t>(n), scratch.data());
    slow.run(interpreted.in().data(), interpreted.out().data(), static_cast<int64_t>(n), scratch.data());
    for (size_t r = 0; r < form.outputs.size(); ++r) {
      const auto* const a = reinterpret_cast<const T*>(compiled.outputs[r].data());
      const auto* const b = reinterpret_cast<const T*>(interpreted.outputs[r].data());
      const auto* const x = reinterpret_cast<const T*>(compiled.inputs[0].data());
      const auto* const y = reinterpret_cast<const T*>(compiled.inputs[1].data());
      for (size_t i = 0; i < (n + kLanes) * sizeof(float) / sizeof(T); ++i) {
        ASSERT_TRUE(same_bits(a[i], b[i]))
            << describe(form, GetParam()) << "\nresult " << r << ", element " << i << " of " << n << ": "
            << to_float(a[i]) << " and " << to_float(b[i]) << " of " << to_float(x[i]) << ", " << to_float(y[i]);
      }
    }
  }
};

TEST_P(CompiledLoop, HasTheBitsOfTheInterpreterForSpecialValues) {
  std::mt19937 random(1);
  for (auto op = static_cast<int>(ScalarOp::kAdd); op <= static_cast<int>(ScalarOp::kF16); ++op) {
    const auto known = static_cast<ScalarOp>(op);
    ScalarExpr expr;
    expr.set_results({expr.make(known, expr.input(0), arity_of(known) > 1 ? expr.input(1) : ScalarId(),
                                arity_of(known) > 2 ? expr.input(2) : ScalarId())});
    compare<float>(form_of(expr), 5000, random);
  }
}

// A compiler evaluates constants without flushing denormal numbers, unlike the processor at run time.
TEST_P(CompiledLoop, HasTheBitsOfTheInterpreterForConstantsThatLeadToDenormalNumbers) {
  std::mt19937 random(3);
  for (auto op = static_cast<int>(ScalarOp::kAdd); op <= static_cast<int>(ScalarOp::kF16); ++op) {
    const auto known = static_cast<ScalarOp>(op);
    const auto arity = static_cast<size_t>(arity_of(known));
    for (const double number : {1e-45, -1e-45, 1e-40, 1.2e-38, -1.2e-38, 1e-37, 1e-31, 1e31, 1.7e38, -3e38, 1e40}) {
      for (size_t place = 0; arity > 1 && place < arity; ++place) {
        ScalarExpr expr;
        std::vector<ScalarId> args{expr.input(0), expr.input(1), arity > 2 ? expr.input(2) : ScalarId()};
        args[place] = expr.constant(number);
        expr.set_results({expr.make(known, args[0], args[1], args[2])});
        compare<float>(form_of(expr), 500, random);
      }
    }
  }
  // A denormal number on which no arithmetic operates passes unchanged through both.
  for (const char* text : {"select(x0 < x1, 1e-45, x1)", "min(x0, 1e-45) * x1", "x0 ^ 1e-45 + x1 ^ (-1e-45)"}) {
    const auto expr = parse_scalar_expr(text);
    ASSERT_TRUE(expr.ok()) << text;
    compare<float>(form_of(*expr), 500, random);
  }
}

TEST_P(CompiledLoop, HasTheBitsOfTheInterpreterForRandomExpressions) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const ScalarExpr expr = testing::random_expr(random, 1 + static_cast<int>(seed % 40));
    compare<float>(form_of(expr), 1 + random() % 600, random);
    compare<Bf16>(form_of(expr, LoopInput::kBF16, DType::kBF16), 1 + random() % 600, random);
    compare<Half>(form_of(expr, LoopInput::kF16, DType::kF16), 1 + random() % 600, random);
  }
}

TEST_P(CompiledLoop, HasTheBitsOfTheInterpreterForEveryLength) {
  std::mt19937 random(2);
  for (size_t n = 1; n <= 70; ++n) {
    compare<float>(form_of(*parse_scalar_expr("x0 * x2 + x1, x1 - x0")), n, random);
    compare<Bf16>(form_of(*parse_scalar_expr("x0 * x2 + x1, x1 - x0"), LoopInput::kBF16, DType::kBF16), n, random);
    compare<Half>(form_of(*parse_scalar_expr("x0 * x2 + x1, x1 - x0"), LoopInput::kF16, DType::kF16), n, random);
  }
}

// Sums of squares are kept as sixteen running sums in f64 over all calls. Element i is added to sum i % 16, and
// elements beyond the last one must not be added.
TEST_P(CompiledLoop, SquaresOfResultsAreAddedToRunningSums) {
  LoopForm form = form_of(*parse_scalar_expr("x0 * x2 + x1 / 3, x0, 5"));
  form.squares = true;
  std::mt19937 random(3);
  std::uniform_real_distribution<float> draw(-2, 2);
  for (const bool compile : {true, false}) {
    const ElementLoop loop(form, GetParam(), compile);
    ASSERT_EQ(loop.compiled(), compile);
    const Memory scratch(loop.scratch_bytes());
    for (const int64_t n : {1, 15, 16, 17, 40, 255, 300, 1000}) {
      Operands operands{std::vector(3, std::vector<float>(static_cast<size_t>(n) + kLanes, 9.0F)), {}};
      for (std::vector<float>& values : operands.inputs) {
        std::generate_n(values.begin(), n, [&] { return draw(random); });
      }
      SquareLanes sums[3];
      SquareLanes expected[3];
      for (int run = 0; run < 2; ++run) {
        void* outputs[] = {sums, sums + 1, sums + 2};
        loop.run(operands.in().data(), outputs, n, scratch.data());
        for (int64_t i = 0; i < n; ++i) {
          const float x = operands.inputs[0][static_cast<size_t>(i)];
          const float y = operands.inputs[1][static_cast<size_t>(i)];
          const float results[] = {x * operands.inputs[2][0] + y / 3, x, 5};
          for (size_t r = 0; r < 3; ++r) {
            expected[r].lanes[i % kLanes] += static_cast<double>(results[r]) * static_cast<double>(results[r]);
          }
        }
      }
      EXPECT_EQ(std::memcmp(sums, expected, sizeof sums), 0) << n << " elements, compiled " << compile;
    }
  }
}

// `previous = weight` and `weight = ...` both read the old weight, however the range is divided.
TEST_P(CompiledLoop, AResultMayOverwriteAnInput) {
  const LoopForm form = form_of(*parse_scalar_expr("x0 + x1 * x2, x0"));
  for (const bool compile : {true, false}) {
    const ElementLoop loop(form, GetParam(), compile);
    const Memory scratch(loop.scratch_bytes());
    for (const int64_t n : {5, 16, 300, 1000}) {
      std::vector<float> weight(static_cast<size_t>(n));
      std::iota(weight.begin(), weight.end(), 1.0F);
      std::vector<float> previous(static_cast<size_t>(n), 0.5F);
      const float scale = 2;
      const void* const inputs[] = {weight.data(), previous.data(), &scale};
      void* const outputs[] = {weight.data(), previous.data()};
      loop.run(inputs, outputs, n, scratch.data());
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(weight[static_cast<size_t>(i)], static_cast<float>(i + 2)) << compile << " " << n;
        ASSERT_EQ(previous[static_cast<size_t>(i)], static_cast<float>(i + 1)) << compile << " " << n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, CompiledLoop, ::testing::Values(Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

TEST(Jit, CanBeTurnedOff) {
  use_jit(false);
  const ElementLoop loop(form_of(*parse_scalar_expr("x0 + 41.5")), detect_isa(), true);
  use_jit(true);
  EXPECT_FALSE(loop.compiled());
}

TEST(Jit, ALoopIsCompiledOnce) {
  if (open_jit().compiler.empty()) {
    GTEST_SKIP() << "no compiler";
  }
  const LoopForm form = form_of(*parse_scalar_expr("x0 + 42.5"));
  const LoopCode first = compile_loop(form, detect_isa());
  const JitReport before = jit_report();
  EXPECT_EQ(compile_loop(form, detect_isa()), first);
  const JitReport after = jit_report();
  EXPECT_EQ(before.compiled + before.from_cache, after.compiled + after.from_cache);
}

// A cache of compiled code in a directory of the test.
class KernelCache : public ::testing::Test {
 protected:
  KernelCache() {
    if (const char* const now = std::getenv("XDG_CACHE_HOME")) {
      before_ = now;
    }
    ::setenv("XDG_CACHE_HOME", directory_.path().c_str(), 1);
  }
  ~KernelCache() override {
    if (before_) {
      ::setenv("XDG_CACHE_HOME", before_->c_str(), 1);
    } else {
      ::unsetenv("XDG_CACHE_HOME");
    }
  }
  static std::string path() { return path_in_cache("loop", "key"); }

 private:
  testing::TemporaryDirectory directory_;
  std::optional<std::string> before_;
};

TEST_F(KernelCache, StoredCodeIsReadBack) {
  EXPECT_EQ(read_object("key"), std::nullopt);
  store_object("key", "code\nof a loop");
  EXPECT_EQ(read_object("key"), "code\nof a loop");
  EXPECT_EQ(read_object("another"), std::nullopt);
  struct stat info {};
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(KernelCache, DamagedFilesAreRejected) {
  store_object("key", "code of a loop");
  const std::string whole = testing::read_file(path());
  const auto write = [&](const std::string& content) {
    std::FILE* const file = std::fopen(path().c_str(), "wb");
    ASSERT_NE(file, nullptr);
    std::fwrite(content.data(), 1, content.size(), file);
    std::fclose(file);
  };
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string other = whole;
    other[at] = static_cast<char>(other[at] ^ 4);
    write(other);
    EXPECT_EQ(read_object("key"), std::nullopt) << "byte " << at;
    write(whole.substr(0, at));
    EXPECT_EQ(read_object("key"), std::nullopt) << "cut to " << at;
  }
  write(whole);
  EXPECT_EQ(read_object("key"), "code of a loop");
}

// Another process that can write to the directory could store a valid file under the name of another key.
TEST_F(KernelCache, CodeOfAnotherLoopIsRejected) {
  store_object("other", "code");
  std::filesystem::rename(path_in_cache("loop", "other"), path());
  EXPECT_EQ(read_object("key"), std::nullopt);
}

TEST_F(KernelCache, FilesThatOtherUsersCanWriteAreRejected) {
  store_object("key", "code");
  for (const mode_t mode : {0620U, 0602U, 0666U}) {
    ASSERT_EQ(::chmod(path().c_str(), mode), 0);
    EXPECT_EQ(read_object("key"), std::nullopt) << mode;
  }
  ASSERT_EQ(::chmod(path().c_str(), 0600), 0);
  EXPECT_EQ(read_object("key"), "code");
  if (::chown(path().c_str(), 12345, 12345) == 0) {
    EXPECT_EQ(read_object("key"), std::nullopt) << "of another user";
  }
}

}  // namespace
}  // namespace xrun::ops
