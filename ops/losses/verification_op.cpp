// verification: the accuracy with which the distance between the features of two pictures tells whether they show the
// same class. The operator only returns the features; an evaluation compares those of each pair of samples
// (runtime/train/evaluation/verification.h).
//   result [N, D]: the feature
#include <algorithm>

#include "ops/catalog.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_verification(std::span<const TensorType> inputs, const Attrs& attrs) {
  const TensorType& feature = inputs[0];
  XRUN_TRY(expect_activation("verification", feature));
  if (feature.rank() != 2) {
    return rank_error("verification", "features [N, D]", feature, kOnePosition);
  }
  XRUN_TRY(expect_range("verification", "folds", attrs.integer("folds", 10), 1, 1000));
  return OpShape{{{.dtype = DType::kF32, .dims = feature.dims}}};
}

Result<std::unique_ptr<Kernel>> make_verification(const KernelSpec& spec) {
  return kernel_of([elements = spec.rows * spec.inputs[0].dims[1]](const KernelCall& call) {
    std::copy_n(call.inputs[0].as<float>(), elements, call.outputs[0].as<float>());
  });
}

}  // namespace

constinit const Op kVerification{
    .def = {.name = "verification",
            .signature = "(source: source, feature: [N, D], flip: bool = true, folds: int = 10)",
            .group = "metrics",
            .doc = "share of the pairs of pictures of a source for which the distance of the features tells correctly "
                   "whether both show one class, with the threshold from the other folds; only in evaluations",
            .example = "verification(lfw, feature)",
            .aliases = "tar_at_far roc",
            .precision = PrecisionRule::kWide,
            .infer = infer_verification,
            .cost = [](std::span<const TensorType> inputs, std::span<const TensorType> outputs,
                       const Attrs&) { return pointwise_cost(inputs, outputs, 1); },
            .shard = "n_->n_"},
    .cpu = make_verification};

}  // namespace xrun::ops
