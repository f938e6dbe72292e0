// Operators of edition 1 that can be checked and counted but not run yet. They have signatures, shapes and parameters
// but no kernels.
#include <array>

#include "ops/catalog.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

using Types = std::span<const TensorType>;

TensorType rows_of(const TensorType& x) { return weight_type({x.dims[0]}); }

Result<OpShape> infer_feature_metric(Types in, const Attrs&) { return OpShape{{rows_of(in[0])}}; }

constexpr Op later(std::string_view name, std::string_view signature, std::string_view group, std::string_view doc,
                   std::string_view example, Result<OpShape> (*infer)(Types, const Attrs&),
                   std::string_view aliases = {}) {
  return {.def = {.name = name,
                  .signature = signature,
                  .group = group,
                  .doc = doc,
                  .example = example,
                  .aliases = aliases,
                  .availability = Availability::kNotYet,
                  .infer = infer}};
}

constexpr std::array kLater{
    later("verification", "(source: source, feature: [N, D], flip: bool = true)", "metrics",
          "accuracy in telling pairs of the same class from pairs of different classes", "verification(lfw, feature)",
          infer_feature_metric),
};

template <size_t kSize>
constexpr std::array<const Op*, kSize> pointers(const std::array<Op, kSize>& ops) {
  std::array<const Op*, kSize> all{};
  for (size_t i = 0; i < kSize; ++i) {
    all[i] = &ops[i];
  }
  return all;
}

constexpr auto kOps = pointers(kLater);

}  // namespace

std::span<const Op* const> unavailable_ops() { return kOps; }

}  // namespace xrun::ops
