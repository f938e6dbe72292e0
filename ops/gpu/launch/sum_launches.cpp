// Gradients of parameters and of operands that were broadcast: add.sum, param.sum, map.sum, and position_embedding.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>
#include <optional>

#include "ops/gpu/launch/column_sums.h"
#include "ops/gpu/launch/compiled_loop.h"
#include "ops/gpu/launch/operators.h"
#include "ops/gpu/launch/term_sums.h"
#include "ops/loops/broadcast.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;

Made make_sum(const GpuSpec& spec) {
  XRUN_ASSIGN(const ResultSums sums, ResultSums::make(spec, spec.node.outputs[0], spec.node.inputs[0]));
  return gpu_kernel_of(spec, [sums](LaunchList& list, int64_t blocks) { sums.add(list, in(0), out(0), blocks); });
}

// A function with results that are stored, and results that are summed. The terms of the latter are f32 in the working
// memory, and so are their sums before they are rounded to bf16.
class MapSum final : public GpuKernel {
 public:
  static Made make(const GpuSpec& spec) {
    XRUN_ASSIGN(ScalarExpr expr, parse_scalar_expr(spec.node.attrs.text("y")));
    XRUN_ASSIGN(TensorType terms, broadcast("combine", spec.node.inputs));
    for (const auto* types : {&spec.node.inputs, &spec.node.outputs}) {
      const auto whole = std::ranges::find(*types, terms.dims, &TensorType::dims);
      terms.layout = whole == types->end() ? terms.layout : whole->layout;
    }
    terms.dtype = DType::kF32;
    std::unique_ptr<MapSum> made(new MapSum(spec, terms));
    std::vector<TensorType> results = spec.node.outputs;
    for (size_t i = 0; i < results.size(); ++i) {
      Summed& result = made->results_.emplace_back();
      if (!spec.node.attrs.has("dims" + std::to_string(i))) {
        continue;
      }
      XRUN_TRY(type_ending(spec, results[i].dtype));
      XRUN_ASSIGN(result.sums, ResultSums::make(spec, results[i], terms));
      result.terms = made->take(terms);
      if (results[i].dtype == DType::kBF16) {
        result.wide = made->take(results[i]);
      }
      results[i] = terms;
    }
    XRUN_ASSIGN(made->loop_, CompiledLoop::of_map(spec, spec.node.inputs, results, std::move(expr)));
    return std::unique_ptr<GpuKernel>(std::move(made));
  }

  std::vector<GpuLaunch> launches(int64_t blocks) const override {
    LaunchList list(spec_.target);
    std::vector<GpuArgument> operands;
    for (size_t i = 0; i < spec_.node.inputs.size(); ++i) {
      operands.push_back(in(static_cast<int>(i)));
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      operands.push_back(results_[i].sums ? scratch(results_[i].terms) : out(static_cast<int>(i)));
    }
    loop_->add(list, spec_.elements(terms_, blocks), std::move(operands));
    for (size_t i = 0; i < results_.size(); ++i) {
      const Summed& result = results_[i];
      const GpuArgument place = out(static_cast<int>(i));
      if (result.sums) {
        result.sums->add(list, scratch(result.terms), result.wide ? scratch(*result.wide) : place, blocks);
      }
      if (result.wide) {
        const int64_t n = spec_.elements(spec_.node.outputs[i], blocks);
        list.each("cast", "narrow_bf16", n, scratch(*result.wide), place, n);
      }
    }
    return list.take();
  }

  Bytes scratch_bytes() const override { return used_; }

 private:
  struct Summed {
    std::optional<ResultSums> sums;  // empty for a result that is stored
    Bytes terms = 0;                 // places in the working memory
    std::optional<Bytes> wide;       // f32 sums of a bf16 result
  };

  MapSum(GpuSpec spec, TensorType terms) : spec_(std::move(spec)), terms_(std::move(terms)) {}

  // Takes working memory for a tensor of f32.
  Bytes take(const TensorType& type) {
    const Bytes place = used_;
    used_ += spec_.for_blocks(spec_.elements(type, 1) * size_of(DType::kF32));
    return place;
  }

  GpuSpec spec_;
  TensorType terms_;
  std::vector<Summed> results_;
  std::optional<CompiledLoop> loop_;
  Bytes used_ = 0;
};

// y = x + embedding, which has the elements of a sample.
Made make_position(const GpuSpec& spec) {
  const TensorType& x = spec.node.inputs[0];
  XRUN_ASSIGN(const std::string ending, type_ending(spec, x.dtype));
  return gpu_kernel_of(spec, [spec, ending, sample = x.row_elements()](LaunchList& list, int64_t blocks) {
    const int64_t n = spec.rows(blocks) * sample;
    list.each("arithmetic", "add_bias" + ending, n, in(0), in(1), out(0), n, static_cast<int32_t>(sample));
  });
}

Made make_position_grad(const GpuSpec& spec) {
  const TensorType& dy = spec.node.inputs[0];
  XRUN_TRY(type_ending(spec, dy.dtype));
  return gpu_kernel_of(spec, [spec, dy](LaunchList& list, int64_t blocks) {
    add_column_sums(list, dy.dtype, in(0), out(0), spec.node.rows, dy.row_elements(), blocks);
  });
}

constexpr std::array kOps{
    GpuOp{"add.sum", make_sum},
    GpuOp{"param.sum", make_sum},
    GpuOp{"map.sum", MapSum::make},
    GpuOp{"position_embedding", make_position},
    GpuOp{"position_embedding.grad", make_position_grad},
};

}  // namespace

std::span<const GpuOp> sum_launches() { return kOps; }

}  // namespace xrun::ops::gpu
