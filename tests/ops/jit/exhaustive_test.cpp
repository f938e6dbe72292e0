// Tests each function of one number on all inputs: interpreted and compiled loops of every instruction set give the
// same bits, and the error against f64 is measured in units of the last place. Runs only with XRUN_EXHAUSTIVE=1 (`make
// test-exhaustive`).
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>

#include "ops/jit/compiler.h"
#include "ops/jit/element_loop.h"
#include "tests/ops/op_runner.h"

namespace xrun::ops {
namespace {

constexpr int64_t kInputs = int64_t{1} << 32;
constexpr int64_t kChunk = int64_t{1} << 16;

struct Worst {
  double ulps = 0;  // largest error of results that are normal numbers
  float at = 0;
  int64_t wrong = 0;  // results that are NaN, infinite or finite although the value in f64 is not
};

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

void add_error(ScalarOp op, float x, float y, Worst& worst) {
  const double wanted = apply(op, static_cast<double>(x));
  const float near = std::fabs(static_cast<float>(wanted));
  if (std::isnan(wanted) || !std::isnormal(near) || !std::isfinite(y)) {
    const bool agree = std::isnan(wanted) == std::isnan(y) && std::isinf(near) == std::isinf(y);
    worst.wrong += agree ? 0 : 1;
    return;
  }
  const double ulp = static_cast<double>(std::nextafter(near, INFINITY)) - static_cast<double>(near);
  const double error = std::fabs(static_cast<double>(y) - wanted) / ulp;
  if (error > worst.ulps) {
    worst.ulps = error;
    worst.at = x;
  }
}

class Exhaustive : public ::testing::TestWithParam<ScalarOp> {};

TEST_P(Exhaustive, AllLoopsAgreeOnAllInputs) {
  if (std::getenv("XRUN_EXHAUSTIVE") == nullptr) {
    GTEST_SKIP() << "make test-exhaustive looks at all inputs";
  }
  LoopForm form;
  form.expr.set_results({form.expr.make(GetParam(), form.expr.input(0))});
  form.inputs = {LoopInput::kF32};
  form.outputs = {DType::kF32};
  std::vector<ElementLoop> loops;
  std::string kinds;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    for (const bool compile : {false, true}) {
      if (isa <= detect_isa()) {
        const ElementLoop& loop = loops.emplace_back(form, isa, compile);
        kinds += " " + std::string(name_of(isa)) + (loop.compiled() ? " compiled" : " interpreted");
      }
    }
  }
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  Worst worst;
  int64_t differ = 0;
  float differs_at = 0;
  const auto work = [&] {
    const Memory scratch(loops[0].scratch_bytes());
    std::vector<float> x(kChunk);
    std::vector<std::vector<float>> y(loops.size(), std::vector<float>(kChunk));
    Worst own;
    for (int64_t begin = next.fetch_add(kChunk); begin < kInputs; begin = next.fetch_add(kChunk)) {
      for (int64_t i = 0; i < kChunk; ++i) {
        x[static_cast<size_t>(i)] = std::bit_cast<float>(static_cast<uint32_t>(begin + i));
      }
      for (size_t k = 0; k < loops.size(); ++k) {
        const void* const in = x.data();
        void* const out = y[k].data();
        loops[k].run(&in, &out, kChunk, scratch.data());
      }
      for (size_t i = 0; i < x.size(); ++i) {
        add_error(GetParam(), x[i], y[0][i], own);
        for (size_t k = 1; k < loops.size(); ++k) {
          if (!same(y[0][i], y[k][i])) {
            const std::lock_guard lock(mutex);
            ++differ;
            differs_at = x[i];
          }
        }
      }
    }
    const std::lock_guard lock(mutex);
    worst.wrong += own.wrong;
    if (own.ulps > worst.ulps) {
      worst.ulps = own.ulps;
      worst.at = own.at;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back(work);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(differ, 0) << "the last at " << differs_at;
  std::printf("| `%s` | %.2f | %g | %lld |%s\n", std::string(name_of(GetParam())).c_str(), worst.ulps,
              static_cast<double>(worst.at), static_cast<long long>(worst.wrong), kinds.c_str());
}

INSTANTIATE_TEST_SUITE_P(Functions, Exhaustive,
                         ::testing::Values(ScalarOp::kNeg, ScalarOp::kExp, ScalarOp::kLog, ScalarOp::kSqrt,
                                           ScalarOp::kAbs, ScalarOp::kSign, ScalarOp::kFloor, ScalarOp::kErf,
                                           ScalarOp::kSin, ScalarOp::kCos, ScalarOp::kAcos, ScalarOp::kTanh,
                                           ScalarOp::kSigmoid, ScalarOp::kBf16, ScalarOp::kF16));

}  // namespace
}  // namespace xrun::ops
