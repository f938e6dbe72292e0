// The texts of kernels: a golden, acceptance by ptxas for every architecture, the cache on disk, and refusals.
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>

#include "graph/os/cache_file.h"
#include "ops/losses/row_losses.h"
#include "ops/optimizer/own_update.h"
#include "tests/gpu_loops/gpu_runs.h"
#include "tests/gpu_loops/updates.h"
#include "tests/support/command.h"
#include "tests/support/random_expr.h"

namespace xrun::ops {
namespace {

using Reach = GpuOperand::Reach;

GpuLoop loop_of(ScalarExpr expr, DType dtype = DType::kF32) {
  expr.prune();
  GpuLoop loop{.expr = std::move(expr), .inputs = {}, .outputs = {}, .dims = {}};
  const GpuOperand each{.reach = Reach::kEach, .dtype = dtype, .steps = {}};
  loop.inputs.assign(3, each);
  loop.outputs.assign(loop.expr.results().size(), dtype);
  return loop;
}

class GpuTexts : public GpuLoops {};

TEST_F(GpuTexts, ASmallKernelIsTheGolden) {
  if (open_jit().compiler != "LLVM 19.1.7") {
    GTEST_SKIP() << "the golden is the text of LLVM 19.1.7, not of " << open_jit().compiler;
  }
  GpuLoop loop = loop_of(*parse_scalar_expr("x0 * sigmoid(x0) + x1 * x2"), DType::kBF16);
  loop.inputs[1] = {.reach = Reach::kSteps, .dtype = DType::kF32, .steps = {0, 1}};
  loop.inputs[2] = {.reach = Reach::kNumber, .dtype = DType::kF32, .steps = {}};
  loop.dims = {1, 96};
  EXPECT_TRUE(test::matches_golden(*compile_ptx(loop, GpuTarget::kSm80), "gpu_loops/silu.ptx"));
}

TEST_F(GpuTexts, InexactInstructionsAreFound) {
  const std::string text = *compile_ptx(loop_of(*parse_scalar_expr("x0 * x1 + exp(x2)")), GpuTarget::kSm80);
  EXPECT_EQ(inexact_word(text), "");
  for (const std::string planted : {"fma.rn.ftz.f32", "add.f32", "add.ftz.f32", "mul.rn.f32", "ex2.approx.ftz.f32"}) {
    std::string changed = text;
    changed.insert(changed.find("add.rn.ftz.f32"), planted + " ");
    EXPECT_NE(inexact_word(changed), "") << planted;
  }
}

// Returns kernels with all operations and types that the compiler accepts.
std::vector<GpuLoop> all_loops() {
  std::vector<GpuLoop> loops;
  for (auto op = static_cast<int>(ScalarOp::kAdd); op <= static_cast<int>(ScalarOp::kF16); ++op) {
    const auto known = static_cast<ScalarOp>(op);
    ScalarExpr expr;
    expr.set_results({expr.make(known, expr.input(0), arity_of(known) > 1 ? expr.input(1) : ScalarId(),
                                arity_of(known) > 2 ? expr.input(2) : ScalarId())});
    loops.push_back(loop_of(expr, op % 3 == 0 ? DType::kF32 : op % 3 == 1 ? DType::kBF16 : DType::kF16));
  }
  for (const std::string& call : optimizer_calls()) {
    const UpdateRule rule = *read_update_rule(call_of(call).args);
    loops.push_back(update_kernel(rule, loops.size() % 2 == 0));
    if (!rule.norms.empty()) {
      loops.push_back(norm_kernel(rule, 0, 4096));
    }
  }
  for (const char* name : {"mse", "bce"}) {
    loops.push_back(row_loss_kernels(name, 100)->loss);
    loops.push_back(row_loss_kernels(name, 100)->gradient);
  }
  std::mt19937 random(41);
  loops.push_back(loop_of(testing::random_expr(random, 60)));
  loops.back().large = true;
  return loops;
}

// Joins all kernels to one text, so that ptxas starts once for each architecture.
std::string joined(const std::vector<GpuLoop>& loops, GpuTarget target) {
  std::string all;
  for (size_t i = 0; i < loops.size(); ++i) {
    std::string text = *compile_ptx(loops[i], target);
    expect_exact(text);
    const size_t begin = text.find(".visible");
    if (i == 0) {
      all = text.substr(0, begin);
    }
    text = text.substr(begin);
    for (size_t at = 0; (at = text.find(kGpuKernel, at)) != std::string::npos; at += 1) {
      text.replace(at, std::string_view(kGpuKernel).size(), fmt::format("kernel{}", i));
    }
    all += text;
  }
  return all;
}

TEST_F(GpuTexts, AreAcceptedByPtxas) {
  const std::string ptxas = "/usr/local/cuda/bin/ptxas";
  if (!std::filesystem::exists(ptxas)) {
    GTEST_SKIP() << ptxas << " is not installed";
  }
  const std::vector<GpuLoop> loops = all_loops();
  const testing::TemporaryDirectory directory;
  const std::string old = directory.write("sm_80.ptx", joined(loops, GpuTarget::kSm80));
  const std::string now = directory.write("sm_90.ptx", joined(loops, GpuTarget::kSm90));
  for (const auto& [architecture, text] : std::vector<std::pair<std::string, std::string>>{
           {"sm_80", old}, {"sm_90", now}, {"sm_100", now}, {"sm_120", now}}) {
    const std::string log = directory.path() + "/log";
    const std::string command =
        fmt::format("{} -O1 -arch={} -v {} -o {}/out > {} 2>&1", ptxas, architecture, text, directory.path(), log);
    EXPECT_EQ(std::system(command.c_str()), 0) << architecture << ": " << testing::read_file(log);
    const std::string report = testing::read_file(log);
    EXPECT_NE(report.find(" 0 bytes spill stores"), std::string::npos) << report;
    EXPECT_FALSE(std::regex_search(report, std::regex("[1-9][0-9]* bytes (stack|spill)"))) << architecture << report;
  }
}

// The cache of kernels in a directory of the test.
class GpuCache : public GpuLoops {
 protected:
  GpuCache() {
    if (const char* const now = std::getenv("XDG_CACHE_HOME")) {
      before_ = now;
    }
    ::setenv("XDG_CACHE_HOME", directory_.path().c_str(), 1);
    forget_loops();
  }
  ~GpuCache() override {
    if (before_) {
      ::setenv("XDG_CACHE_HOME", before_->c_str(), 1);
    } else {
      ::unsetenv("XDG_CACHE_HOME");
    }
  }
  // The number of kernels that a call compiles, and the number that it reads from the disk.
  std::pair<int, int> work_of(const GpuLoop& loop, GpuTarget target) {
    const JitReport before = jit_report();
    const auto text = compile_ptx(loop, target);
    EXPECT_TRUE(text.ok() && (last_.empty() || last_ == *text || target != GpuTarget::kSm80));
    last_ = target == GpuTarget::kSm80 ? *text : last_;
    const JitReport after = jit_report();
    return {after.compiled_kernels - before.compiled_kernels, after.kernels_from_cache - before.kernels_from_cache};
  }
  const std::string& directory() const { return directory_.path(); }

 private:
  testing::TemporaryDirectory directory_;
  std::optional<std::string> before_;
  std::string last_;
};

TEST_F(GpuCache, KeepsTextsOnDisk) {
  using Work = std::pair<int, int>;
  const GpuLoop loop = loop_of(*parse_scalar_expr("x0 + 43.5"));
  EXPECT_EQ(work_of(loop, GpuTarget::kSm80), Work(1, 0));
  EXPECT_EQ(work_of(loop, GpuTarget::kSm80), Work(0, 0)) << "the process has the text";
  forget_loops();
  EXPECT_EQ(work_of(loop, GpuTarget::kSm80), Work(0, 1));
  EXPECT_EQ(work_of(loop, GpuTarget::kSm90), Work(1, 0)) << "the other target has a text of its own";
  // A damaged file is compiled anew.
  forget_loops();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory())) {
    if (entry.is_regular_file()) {
      std::filesystem::resize_file(entry.path(), entry.file_size() - 1);
    }
  }
  EXPECT_EQ(work_of(loop, GpuTarget::kSm80), Work(1, 0));
}

std::string refusal(const GpuLoop& loop) {
  const auto text = compile_ptx(loop, GpuTarget::kSm80);
  if (text.ok()) {
    return "";
  }
  EXPECT_EQ(text.error().code, "XG0824");
  return text.error().message;
}

TEST(GpuRefusals, NameThePartThatIsNotSupported) {
  const GpuLoop loop = loop_of(*parse_scalar_expr("x0 + x1"));
  const auto with = [&](auto change) {
    GpuLoop changed = loop;
    change(changed);
    return refusal(changed);
  };
  EXPECT_NE(with([](GpuLoop& l) { l.inputs[1].dtype = DType::kI32; }).find("type i32"), std::string::npos);
  EXPECT_NE(with([](GpuLoop& l) { l.outputs[0] = DType::kF8E4M3; }).find("type f8"), std::string::npos);
  EXPECT_NE(with([](GpuLoop& l) { l.inputs.resize(1); }).find("operand 1, which is missing"), std::string::npos);
  EXPECT_NE(with([](GpuLoop& l) { l.outputs.clear(); }).find("0 results"), std::string::npos);
  EXPECT_NE(with([](GpuLoop& l) {
              l.inputs[0] = {Reach::kSteps, DType::kF32, {1, 2}};
            }).find("2 steps"),
            std::string::npos);
  EXPECT_NE(with([](GpuLoop& l) { l.sums = GpuLoop::Sums::kMeans; }).find("not positive"), std::string::npos);
  EXPECT_NE(with([](GpuLoop& l) {
              l.sums = GpuLoop::Sums::kSquares;
              l.row = 8;
              l.outputs[0] = DType::kBF16;
            }).find("bf16 and is summed"),
            std::string::npos);
  ScalarExpr long_one;
  ScalarId x = long_one.input(0);
  for (int i = 0; i < 1001; ++i) {
    x = long_one.make(ScalarOp::kAdd, x, long_one.constant(i + 1.5));
  }
  long_one.set_results({x});
  EXPECT_NE(refusal(loop_of(long_one)).find("1001 operations, more than 1000"), std::string::npos);
}

TEST(GpuRefusals, SayThatTheCompilerIsOff) {
  use_jit(false);
  const std::string message = refusal(loop_of(*parse_scalar_expr("x0 + x1 * 44.5")));
  use_jit(true);
  EXPECT_NE(message.find("XRUN_JIT is `off`"), std::string::npos) << message;
}

}  // namespace
}  // namespace xrun::ops
