// OpDef: the meaning of an operator as one value. `lang` reads the signature, `graph` infers types and differentiates,
// `planner` reads the cost. Kernels are in ops/. The conformance suite tests kernels against the shard rule, although
// no plan splits an operator yet. Never switch over operator names outside ops/: add a field here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/op_rules.h"
#include "graph/settings/head_def.h"
#include "graph/types/attr.h"
#include "graph/types/availability.h"
#include "graph/types/tensor_type.h"

namespace xrun {

class GradBuilder;  // graph/passes/autodiff.h

// The initial values of a parameter. Random values are drawn from Philox with (seed, tensor path, element) as counter.
struct Init {
  enum Kind { kConstant, kNormal, kHeNormal, kUniform, kTruncNormal };
  Kind kind = kConstant;
  // The constant; the standard deviation of kNormal, and of kTruncNormal, which draws values beyond two deviations
  // again; the largest magnitude of kUniform.
  double value = 0;
  int64_t fan_in = 0;  // kHeNormal: standard deviation sqrt(2 / fan_in)
  bool operator==(const Init&) const = default;
};

// A tensor that a call of the operator owns. It is trained, or it is a state such as running statistics.
struct ParamDecl {
  std::string name;  // "weight": the last part of the tensor's path
  TensorType type;
  Init init;
  bool trained = true;
};

struct OpShape {
  std::vector<TensorType> outputs;
  std::vector<ParamDecl> params;
};

// One of the calls that another operator's call expands to.
struct PartCall {
  std::string_view op;
  Attrs attrs;
};

// The cost of a call per sample.
struct OpCost {
  Flops flops = 0;
  Bytes bytes = 0;
};

struct OpDef {
  std::string_view name;       // "conv"; internal names have a dot, which no text can write: "conv.dx"
  std::string_view signature;  // in the language's own syntax: "(x: [N, C, H, W], width: int, k: int = 1)"; tensor
                               // parameters come first; "relu" without arguments is "(x: [N, ...])"
  std::string_view group;      // row of the standard-library table, "convolution"
  std::string_view doc;        // the description, one sentence
  std::string_view example;    // a pipeline stage, "conv(64, 3, stride=2)"
  // Names of the operator and its arguments in other frameworks, only for messages: "conv2d kernel_size=k
  // in_channels=". Nothing follows `=` if the operator takes that number from its input. Case and `_` do not count.
  std::string_view aliases;
  Availability availability = Availability::kReady;
  bool variadic = false;    // the first tensor parameter takes any number of tensors (concat)
  int visible_outputs = 1;  // further outputs are only for the gradient (batch statistics)
  RowProperty rows = RowProperty::kRowWise;
  PrecisionRule precision = PrecisionRule::kFollows;
  bool random = false;           // draws random numbers (dropout)
  bool differs_in_eval = false;  // has another meaning outside training (bn, dropout)
  bool folds_states = false;     // its outputs [G, ...] are kept until the update adds them to its states (bn)
  bool updates_rows = false;     // a step updates only rows of its table (graph/layouts/row_updates.h)
  bool internal = false;         // only passes and gradients use it; the language has no name for it (cast)
  LayoutRule layout = LayoutRule::kAlike;
  std::string_view absorbs;   // a pointwise operator that may be fused: "relu", fused as attribute `relu=true`
  std::string_view contains;  // the operator that a loss applies to its first input: "softmax"

  // Infers the types of the outputs and of the parameters that the call owns, from the types of its inputs (without
  // parameters) and its arguments. Errors have XG03xx codes; the caller adds the span.
  Result<OpShape> (*infer)(std::span<const TensorType> inputs, const Attrs& attrs) = nullptr;
  OpCost (*cost)(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs& attrs) = nullptr;
  // True if the call returns its first input unchanged: dropout(0), flatten of a matrix. Null: never.
  bool (*is_identity)(std::span<const TensorType> inputs, const Attrs& attrs) = nullptr;
  // Whether positional numbers begin with a size that the operator takes from its input x, as in other frameworks:
  // conv(3, 64, 3) on 3 channels. Null: never.
  bool (*begins_with_size)(const TensorType& x, std::span<const int64_t> numbers) = nullptr;
  // The calls, on the same inputs, to which a call of this operator expands, as `split` expands to slices. The operator
  // then has no node of its own and no kernel. If there is a single part with several results, the call returns the
  // last result. Null: the operator has a node. REQUIRES: infer succeeded.
  std::vector<PartCall> (*parts)(std::span<const TensorType> inputs, const Attrs& attrs) = nullptr;
  // The text of a ScalarExpr that computes one element of the result from the elements of the operands, which are
  // broadcast. Null: the operator is not element-wise.
  std::string (*expr)(const Attrs& attrs) = nullptr;
  bool fuses = false;  // the kernel computes `expr` exactly, bit for bit, so a group may also compute it (fuse_maps)
  bool sums = false;   // sums its operand to the shape in the attribute `dims` (fuse_sums)
  // Whether a call can compute a function of several operands while it reads them, instead of reading the operand x.
  // The function is then the attribute `of` (fuse_reductions). Null: never.
  bool (*takes_function)(const TensorType& x, const Attrs& attrs) = nullptr;
  // The layout rule if it depends on the call. Null: it is `layout`.
  LayoutRule (*layout_of)(std::span<const TensorType> inputs, const Attrs& attrs) = nullptr;
  // Emits the backward nodes; null: no gradient flows through (metrics, stop_gradient).
  Status (*grad)(GradBuilder& builder) = nullptr;
  // How dimensions split and combine (tests/support/shard_rule.h): "n*->n*". If that depends on the call, `shard_of`
  // returns the text. Operators without a kernel have neither: heads are split by class blocks (head_shape.h).
  std::string_view shard;
  std::string (*shard_of)(std::span<const TensorType> inputs, std::span<const TensorType> outputs,
                          const Attrs& attrs) = nullptr;

  // `head` is only for classifier heads: the form of the logits for these attributes. `margin` is only for losses on
  // heads: the margin for these arguments.
  HeadForm (*head)(const Attrs& attrs) = nullptr;
  Result<MarginForm> (*margin)(const Attrs& attrs) = nullptr;
  // Only for metrics: k of top-k accuracy, counted on logits before the margin.
  int64_t (*metric_k)(const Attrs& attrs) = nullptr;

  // Whether the language can name the operator.
  bool is_word() const { return !internal && name.find('.') == std::string_view::npos; }
};

// The operators known to a run; a view over the catalog of ops/, passed as an argument.
class OpRegistry {
 public:
  OpRegistry() = default;
  explicit OpRegistry(std::vector<const OpDef*> ops);  // sorted here; names are unique

  const OpDef* find(std::string_view name) const;  // null if unknown
  std::span<const OpDef* const> all() const { return ops_; }

 private:
  std::vector<const OpDef*> ops_;
};

}  // namespace xrun
