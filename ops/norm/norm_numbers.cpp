#include "ops/norm/norm_numbers.h"

#include <algorithm>
#include <array>

namespace xrun::ops {
namespace {

using Count = int64_t (*)(const TensorType& x, const Attrs& attrs);

int64_t last(const TensorType& x, const Attrs&) { return x.dims.back(); }

int64_t along_axis(const TensorType& x, const Attrs& attrs) {
  const int64_t axis = attrs.integer("axis", -1);
  return x.dims[static_cast<size_t>(axis < 0 ? axis + x.rank() : axis)];
}

int64_t of_group(const TensorType& x, const Attrs& attrs) {
  return x.dims[1] / attrs.integer("groups") * x.dims[2] * x.dims[3];
}

struct Norm {
  std::string_view op;
  Count count;
  std::string_view result_of_one;
};

constexpr std::array<Norm, 7> kNorms{{
    {"layer_norm", last, "its bias"},
    {"group_norm", of_group, "its bias"},
    {"rms_norm", last, "its weight, with the sign of the number"},
    {"l2norm", along_axis, "the sign of the number"},
    {"softmax", along_axis, "1"},
    {"cosine_classifier", last, "1 or -1"},  // normalises the feature
    {"attention", [](const TensorType& x, const Attrs&) { return x.dims[1]; }, "its value, without any attention"},
}};

}  // namespace

NormGroup norm_group(const OpDef& op, const TensorType& x, const Attrs& attrs) {
  if (op.contains == "softmax") {  // a loss
    return {x.dims.back(), "0"};
  }
  const auto* norm = std::ranges::find(kNorms, op.name, &Norm::op);
  return norm == kNorms.end() ? NormGroup() : NormGroup{norm->count(x, attrs), norm->result_of_one};
}

}  // namespace xrun::ops
