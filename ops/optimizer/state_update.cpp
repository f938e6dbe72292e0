// state.update assigns a new value to a state of a block, once per step:
//   state = y(state, mean of operand 1, mean of operand 2, ...)
// Each call computes the means of the operands over the samples of a row block. After the step, these means are
// averaged over all row blocks, in f64 and in block order. The scalar expression `y` of the state and the means,
// element by element, gives the new state. Such a node exists only in training.
// Tests: tests/ops/oracles_test.cpp
#include <algorithm>
#include <string>
#include <vector>

#include "graph/types/scalar_expr.h"
#include "ops/catalog.h"
#include "ops/jit/interpreter.h"
#include "ops/parts.h"
#include "ops/shape.h"
#include "ops/shard.h"

namespace xrun::ops {
namespace {

// Returns the dimensions of a sample, or [1] if a sample is one number.
std::vector<int64_t> dims_of_sample(const TensorType& x) {
  std::vector<int64_t> dims(x.dims.begin() + 1, x.dims.end());
  return dims.empty() ? std::vector<int64_t>{1} : dims;
}

Result<OpShape> infer_update(std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_ASSIGN(const ScalarExpr expr, parse_scalar_expr(attrs.text("y")));
  const std::vector<int> read = expr.inputs_read();
  if (inputs.empty() || inputs.size() >= kMostScalarInputs || expr.results().size() != 1 ||
      expr.operations() > kMostScalarOps || (!read.empty() && read.back() > static_cast<int>(inputs.size()))) {
    return argument_error("a state is assigned from " + std::to_string(inputs.size()) + " means of the batch",
                          "assign it from 1 to " + std::to_string(kMostScalarInputs - 1));
  }
  OpShape shape;
  for (const TensorType& x : inputs) {
    XRUN_TRY(expect_activation("batch_mean", x));
    if (x.dims != inputs[0].dims) {
      return shape_error("means of " + to_text(inputs[0]) + " and " + to_text(x) + " are assigned to one state",
                         "bring both to the shape of the state");
    }
    std::vector<int64_t> dims = dims_of_sample(x);
    dims.insert(dims.begin(), kPerBlock);
    shape.outputs.push_back(weight_type(std::move(dims)));
  }
  shape.params.push_back(param("state", dims_of_sample(inputs[0])));
  shape.params.back().trained = false;
  return shape;
}

// Returns the shard rule. Samples cannot be split, nor can a state with one number per sample: "_ab,ab->_ab".
std::string shard_update(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  constexpr std::string_view kLetters = "abcdefgh";
  const int rank = inputs[0].rank() - 1;
  const std::string letters = rank == 0 ? "_" : std::string(kLetters.substr(0, static_cast<size_t>(rank)));
  const std::string sample = rank == 0 ? "_" : "_" + letters;
  std::vector<std::string> operands(inputs.size(), sample);
  operands.back() = letters;  // the state
  return shard_text(operands, std::vector<std::string>(outputs.size(), "_" + letters));
}

// Computes the elements `some` of the mean of x [rows, elements] over its rows.
void mean_of_rows(const float* x, int64_t rows, int64_t elements, Range some, float* mean) {
  double sums[kScalarBlock] = {};
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < some.size(); ++c) {
      sums[c] += static_cast<double>(x[r * elements + some.begin + c]);
    }
  }
  for (int64_t c = 0; c < some.size(); ++c) {
    mean[c] = static_cast<float>(sums[c] / static_cast<double>(rows));
  }
}

class StateUpdate final : public Kernel {
 public:
  StateUpdate(const KernelSpec& spec, const ScalarExpr& expr)
      : rows_(spec.rows),
        means_(spec.outputs.size()),
        elements_(spec.inputs[0].row_elements()),
        channels_(spec.inputs[0].is_channels_last() ? spec.inputs[0].dims[1] : 1),
        expr_(expr, static_cast<int>(means_) + 1, spec.isa) {}

  Status run(const KernelCall& call) const override {
    for (size_t i = 0; i < means_; ++i) {
      for_blocks([&](Range some) {
        float means[kScalarBlock];
        mean_of_rows(call.inputs[i].as<float>(), rows_, elements_, some, means);
        for (int64_t at = some.begin; at < some.end; ++at) {
          call.outputs[i].as<float>()[place_of(at)] = means[at - some.begin];
        }
      });
    }
    return {};
  }

  Status fold_states(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                     int64_t blocks) const override {
    auto* const state = inputs[means_].as<float>();
    std::vector<float> values((means_ + 1) * kScalarBlock);
    std::vector<Line> memory(static_cast<size_t>(expr_.scratch_bytes()) / sizeof(Line) + 1);
    std::byte* const scratch = memory[0].bytes;
    for (size_t i = 0; i <= means_; ++i) {
      expr_.inputs(scratch)[i] = values.data() + i * kScalarBlock;
    }
    for_blocks([&](Range some) {
      std::copy_n(state + some.begin, some.size(), values.data());
      for (size_t i = 0; i < means_; ++i) {
        mean_of_rows(outputs[i].as<float>(), blocks, elements_, some, values.data() + (i + 1) * kScalarBlock);
      }
      expr_.run(scratch, some.size());
      std::copy_n(expr_.result(scratch, 0), some.size(), state + some.begin);
    });
    return {};
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  // Returns the index in the state, in the order of the dimensions, of the element that is at `at` in the memory of an
  // operand.
  int64_t place_of(int64_t at) const { return at % channels_ * (elements_ / channels_) + at / channels_; }

  template <typename Run>
  void for_blocks(Run run) const {
    for (int64_t begin = 0; begin < elements_; begin += kScalarBlock) {
      run(Range{begin, std::min(begin + kScalarBlock, elements_)});
    }
  }

  int64_t rows_;  // rows in a row block
  size_t means_;
  int64_t elements_;  // elements of the state
  int64_t channels_;  // number of channels of an operand with channels last in memory; else 1
  Interpreter expr_;
};

Result<std::unique_ptr<Kernel>> make_update(const KernelSpec& spec) {
  XRUN_ASSIGN(const ScalarExpr expr, parse_scalar_expr(spec.attrs.text("y")));
  return std::unique_ptr<Kernel>(std::make_unique<StateUpdate>(spec, expr));
}

}  // namespace

constinit const Op kStateUpdate{
    .def = {.name = "state.update",
            .signature = "(x: [N, ...])",
            .group = "norm",
            .doc = "assigns a state from itself and means over the batch",
            .variadic = true,
            .rows = RowProperty::kRowCoupled,
            .precision = PrecisionRule::kWide,
            .folds_states = true,
            .infer = infer_update,
            .cost = [](std::span<const TensorType> inputs, std::span<const TensorType> outputs,
                       const Attrs&) { return pointwise_cost(inputs, outputs, 1); },
            .shard_of = shard_update},
    .cpu = make_update};

}  // namespace xrun::ops
