// Tests: tests/runtime/data/augment/transform_test.cpp
#include "graph/settings/picture_types.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "graph/base/errors.h"
#include "graph/settings/data_arguments.h"

namespace xrun {
namespace {

// The numbers of a list; empty if it is absent, or not a list of numbers.
std::vector<double> numbers_of(const Attrs& args, std::string_view name) {
  const AttrValue* given = args.find(name);
  const bool are_numbers = given != nullptr && (std::holds_alternative<std::vector<int64_t>>(*given) ||
                                                std::holds_alternative<std::vector<double>>(*given));
  return are_numbers ? args.reals(name) : std::vector<double>();
}

}  // namespace

Status check_picture(const AugmentDef& def, const Field& input) {
  if (input.encoded) {
    return content_error("XG0409", {"`{}` needs a picture, but `{}` is an encoded file", def.name, input.name},
                         "put `decode` before it");
  }
  if (input.type.rank() != 4) {
    return content_error(
        "XG0409", {"`{}` needs a picture [N, C, H, W], but `{}` is {}", def.name, input.name, to_text(input.type)},
        "leave the stage out, or bind a field that holds pictures");
  }
  return {};
}

Result<TensorType> as_float(const AugmentDef& def, const Field& input, const Attrs&) {
  if (input.encoded) {
    return content_error("XG0409", {"`{}` needs numbers, but `{}` is an encoded file", def.name, input.name},
                         "put `decode` before it");
  }
  TensorType type = input.type;
  type.dtype = DType::kF32;
  type.classes = 0;
  return type;
}

Result<TensorType> float_picture(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_TRY(check_picture(def, input));
  return as_float(def, input, args);
}

Result<TensorType> bytes_picture(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_TRY(check_picture(def, input));
  if (input.rescaled) {
    return content_error("XG0409",
                         {"`{}` needs pixels of 0 to 255, but an earlier stage has changed the range", def.name},
                         "put it before `scale`, `normalize` and `random_noise`");
  }
  const int64_t channels = input.type.dims[1];
  if (channels != 0 && channels != 1 && channels != 3) {
    return content_error(
        "XG0409", {"`{}` needs a grey or an RGB picture, but `{}` has {} channels", def.name, input.name, channels},
        "leave the stage out");
  }
  return as_float(def, input, args);
}

Result<TensorType> erased_picture(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_TRY(check_picture(def, input));
  XRUN_TRY(check_ends(args, "area", 2, 2));
  XRUN_TRY(check_ends(args, "ratio", 2, 2));
  if (args.has("value")) {
    const size_t values = numbers_of(args, "value").size();
    if (values != 1 && static_cast<int64_t>(values) != input.type.dims[1]) {
      return content_error("XG0409", {"`value` has {} numbers for {} channels", values, input.type.dims[1]},
                           "give one number, or one per channel");
    }
    if (args.flag("noise", false)) {
      return content_error("XG0413", {"`{}` has both `value` and `noise`, which draws the values", def.name},
                           "leave one of the two out");
    }
  }
  return as_float(def, input, args);
}

Result<TensorType> blurred_picture(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_TRY(check_picture(def, input));
  XRUN_TRY(check_ends(args, "sigma", 1, 2));
  const int64_t kernel = args.integer("kernel");
  if (kernel % 2 == 0) {
    return out_of_range("kernel", {"{}", kernel}, {"an odd number, such as {} or {}", kernel - 1, kernel + 1});
  }
  for (const int64_t side : {input.type.dims[2], input.type.dims[3]}) {
    if (side != 0 && side <= kernel / 2) {
      return content_error("XG0409", {"`{}({})` does not fit a picture of {}", def.name, kernel, to_text(input.type)},
                           {"give a kernel of at most {}", 2 * side - 1});
    }
  }
  return as_float(def, input, args);
}

Result<TensorType> moved_picture(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_TRY(check_ends(args, "degrees", 1, 2));
  XRUN_TRY(check_ends(args, "scale", 2, 2));
  const std::pair<std::string_view, size_t> lists[] = {{"translate", 2}, {"shear", 4}};
  for (const auto& [name, most] : lists) {
    const auto values = numbers_of(args, name);
    const size_t count = values.size();
    const bool ascending =
        name == "translate" || count < 2 || (values[0] <= values[1] && (count < 4 || values[2] <= values[3]));
    if (args.has(name) && (count == 0 || count == 3 || count > most || !ascending)) {
      return out_of_range(name, {"[{}]", fmt::join(values, ", ")},
                          most == 2 ? Text("one number, or two: of the width and of the height")
                                    : Text("a number, an interval [a, b] along x, or two intervals [a, b, c, d]"));
    }
  }
  return float_picture(def, input, args);
}

}  // namespace xrun
