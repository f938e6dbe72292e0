// recall_at: the fraction of the samples for which one of the k most similar other samples of a source has the same
// class. Similarity is the cosine of the features. The operator only returns the data by which a sample is compared; an
// evaluation keeps this data for all samples and compares them (runtime/train/evaluation/recall.h).
//   result [N, D + 2]: the feature, then the label divided by 65536 and the remainder, both exact in f32
#include <algorithm>

#include "ops/catalog.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_recall(std::span<const TensorType> inputs, const Attrs& attrs) {
  const TensorType& feature = inputs[0];
  const TensorType& label = inputs[1];
  XRUN_TRY(expect_activation("recall_at", feature));
  if (feature.rank() != 2) {
    return rank_error("recall_at", "features [N, D]", feature, kOnePosition);
  }
  if (label.dims != std::vector<int64_t>{kBatch} || label.dtype != DType::kI32) {
    return rank_error("recall_at", "one class number a sample, index(C)[N]", label,
                      "bind one column or one label of the data: label = column(64) -> as_index(10)");
  }
  XRUN_TRY(expect_range("recall_at", "k", attrs.integer("k", 1), 1, 1024));
  return OpShape{{{.dtype = DType::kF32, .dims = {kBatch, feature.dims[1] + 2}}}};
}

Result<std::unique_ptr<Kernel>> make_recall(const KernelSpec& spec) {
  return kernel_of([rows = spec.rows, dim = spec.inputs[0].dims[1]](const KernelCall& call) {
    const float* feature = call.inputs[0].as<float>();
    const int32_t* label = call.inputs[1].as<int32_t>();
    float* out = call.outputs[0].as<float>();
    for (int64_t row = 0; row < rows; ++row, feature += dim, out += dim + 2) {
      std::copy_n(feature, dim, out);
      out[dim] = static_cast<float>(label[row] >> 16);
      out[dim + 1] = static_cast<float>(label[row] & 0xFFFF);
    }
  });
}

}  // namespace

constinit const Op kRecallAt{
    .def = {.name = "recall_at",
            .signature = "(feature: [N, D], label: index(C)[N], k: int = 1, source: source = none)",
            .group = "metrics",
            .doc = "share of samples that have one of their own class among the k other samples of the source with the "
                   "nearest features, by cosine; only in evaluations",
            .example = "recall_at(feature, label)",
            .aliases = "recall recall_at_k precision_at_1",
            .precision = PrecisionRule::kWide,
            .infer = infer_recall,
            .cost = [](std::span<const TensorType> inputs, std::span<const TensorType> outputs,
                       const Attrs&) { return pointwise_cost(inputs, outputs, 1); },
            .shard = "n_,n->n_"},
    .cpu = make_recall};

}  // namespace xrun::ops
