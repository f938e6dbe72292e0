// Tests: tests/ops/conformance_test.cpp, tests/graph/passes/fuse_functions_test.cpp
#include "ops/norm/norm_function.h"

#include <algorithm>

#include "graph/types/scalar_expr.h"
#include "ops/shape.h"
#include "ops/simd/simd.h"

namespace xrun::ops {
namespace {

// Numbers of the inputs of the loop. Only the gradient reads dy.
enum Input : int { kX, kMean, kScale, kBias, kDy };

// Makes the expression of bn(x), rounded to `dtype` as if it had been stored.
ScalarId norm_of(ScalarExpr& expr, DType dtype) {
  const ScalarId centred = expr.make(ScalarOp::kSub, expr.input(kX), expr.input(kMean));
  const ScalarId scaled = expr.make(ScalarOp::kMul, centred, expr.input(kScale));
  const ScalarId norm = expr.make(ScalarOp::kAdd, scaled, expr.input(kBias));
  return expr.rounded(norm, dtype);
}

LoopForm form_of(const ScalarExpr& function, const KernelSpec& spec, NormFunction::Way way) {
  const DType dtype = spec.inputs[0].dtype;
  const Bytes result_bytes = block_elements(spec.inputs[0], spec.rows) * size_of(dtype);
  const bool gradient = way == NormFunction::Way::kGradient;
  const LoopInput value = loop_input(dtype);
  LoopForm form;
  form.inputs = {value, LoopInput::kF32, LoopInput::kF32, LoopInput::kF32};
  std::vector<ScalarId> places{norm_of(form.expr, dtype)};
  if (gradient) {
    form.inputs.push_back(value);
    places.push_back(form.expr.input(kDy));
  }
  const int wanted[] = {0};
  form.expr.set_results(form.expr.insert(gradient ? gradient_of(function, 1, wanted) : function, places));
  form.outputs = {dtype};
  form.streams = !gradient && result_bytes >= kStreamed;
  return form;
}

}  // namespace

double function_operations(const Attrs& attrs) {
  const auto function = attrs.has("then") ? parse_scalar_expr(attrs.text("then")) : Result<ScalarExpr>(ScalarExpr());
  return function.ok() ? static_cast<double>(function->operations()) : 0;
}

struct NormFunction::Operands {
  const std::byte* x = nullptr;
  const std::byte* dy = nullptr;  // null in the forward pass
  std::byte* out = nullptr;       // address of the first channel that is computed
};

Result<NormFunction> NormFunction::make(const KernelSpec& spec, int64_t channels, Way way) {
  XRUN_ASSIGN(const ScalarExpr function, parse_scalar_expr(spec.attrs.text("then")));
  if (function.results().size() != 1 || (!function.inputs_read().empty() && function.inputs_read().back() > 0)) {
    return Error{ErrorKind::kContent, "XG0303", "`then` of a batch norm is not a function of one number",
                 "make the file again: xrun writes its functions"};
  }
  return NormFunction(function, spec, channels, way);
}

NormFunction::NormFunction(const ScalarExpr& function, const KernelSpec& spec, int64_t channels, Way way)
    : channels_(channels),
      run_rows_(std::max<int64_t>(1, kScalarBlock / channels)),
      value_bytes_(size_of(spec.inputs[0].dtype)),
      loop_(form_of(function, spec, way), spec.isa, spec.compile) {}

// The scratch has the numbers of the channels, repeated for the rows of a loop, and then the memory of the loop.
Bytes NormFunction::scratch_bytes() const {
  return 3 * align_up(run_rows_ * channels_, kLanes) * static_cast<Bytes>(sizeof(float)) + loop_.scratch_bytes();
}

void NormFunction::run(const NormColumns& p, const std::byte* x, int64_t rows, std::byte* y, std::byte* scratch) const {
  run_loop(p, {.x = x, .out = y}, rows, {0, channels_}, scratch);
  loop_.finish();
}

void NormFunction::run_gradient(const NormColumns& p, const std::byte* x, const std::byte* dy, int64_t rows, Range some,
                                std::byte* g, std::byte* scratch) const {
  run_loop(p, {.x = x, .dy = dy, .out = g}, rows, some, scratch);
}

void NormFunction::run_loop(const NormColumns& p, const Operands& all, int64_t rows, Range some,
                            std::byte* scratch) const {
  if (some.size() == 0) {
    return;
  }
  const int64_t stride = align_up(run_rows_ * channels_, kLanes);
  auto* const repeated = reinterpret_cast<float*>(scratch);
  std::byte* const own = scratch + 3 * stride * static_cast<Bytes>(sizeof(float));
  const float* columns[] = {p.mean + some.begin, p.scale + some.begin, p.bias + some.begin};
  // Rows are contiguous in memory only if all channels are computed, so only then can a loop compute several rows.
  const int64_t each = some.size() == channels_ ? run_rows_ : 1;
  if (each > 1) {
    for (int k = 0; k < 3; ++k) {
      for (int64_t r = 0; r < each; ++r) {
        std::copy_n(columns[k], channels_, repeated + k * stride + r * channels_);
      }
      columns[k] = repeated + k * stride;
    }
  }
  for (int64_t r = 0; r < rows; r += each) {
    const int64_t n = std::min(each, rows - r) * some.size();
    const int64_t first = r * channels_ + some.begin;
    const void* const inputs[] = {all.x + first * value_bytes_, columns[0], columns[1], columns[2],
                                  all.dy == nullptr ? nullptr : all.dy + first * value_bytes_};
    void* const outputs[] = {all.out + r * channels_ * value_bytes_};
    loop_.run(inputs, outputs, n, own);
  }
}

}  // namespace xrun::ops
