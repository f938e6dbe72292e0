#include "ops/dnn/window.h"

#include "graph/base/check.h"
#include "ops/shape.h"

namespace xrun::ops {

std::string to_text(const Extents& extents) {
  return extents.h == extents.w ? std::to_string(extents.h)
                                : std::to_string(extents.h) + " x " + std::to_string(extents.w);
}

Extents extents_of(const Attrs& attrs, std::string_view name) {
  const AttrValue* value = attrs.find(name);
  XRUN_CHECK(value != nullptr, "an argument is missing: " + std::string(name));
  if (const auto* two = std::get_if<std::vector<int64_t>>(value)) {
    XRUN_CHECK(two->size() == 2, "an argument for height and width has two numbers: " + std::string(name));
    return {(*two)[0], (*two)[1]};
  }
  const int64_t both = attrs.integer(name);
  return {both, both};
}

Extents extents_of(const Attrs& attrs, std::string_view name, Extents otherwise) {
  return attrs.has(name) ? extents_of(attrs, name) : otherwise;
}

AttrValue to_attr(const Extents& extents) {
  return extents.h == extents.w ? AttrValue(extents.h) : AttrValue(std::vector<int64_t>{extents.h, extents.w});
}

Status expect_range(std::string_view op, std::string_view argument, const Extents& value, int64_t low, int64_t high) {
  return expect_range(op, argument, value, low, Extents{high, high});
}

Status expect_range(std::string_view op, std::string_view argument, const Extents& value, int64_t low,
                    const Extents& high) {
  XRUN_TRY(expect_range(op, argument, value.h, low, high.h));
  return expect_range(op, argument, value.w, low, high.w);
}

}  // namespace xrun::ops
