#include "graph/settings/data_arguments.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <numbers>

namespace xrun {
namespace {

double number(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

Error out_of_range(std::string_view name, const Text& value, const Text& allowed) {
  return content_error("XG0413", {"`{}` is {}", name, value.text}, {"`{}` takes {}", name, allowed.text});
}

Status check_bounds(std::string_view all, const Attrs& args) {
  while (!all.empty()) {
    const std::string_view one = all.substr(0, all.find(", "));
    all.remove_prefix(std::min(all.size(), one.size() + 2));
    const std::string_view name = one.substr(0, one.find(' '));
    const std::string_view low = one.substr(name.size() + 1, one.find("..") - name.size() - 1);
    const std::string_view high = one.substr(one.find("..") + 2);
    const AttrValue* given = args.find(name);
    if (given == nullptr || std::holds_alternative<std::string>(*given) || std::holds_alternative<TextList>(*given)) {
      continue;  // the argument is `none` or a name, or the stage rejects its texts
    }
    const auto* wholes = std::get_if<std::vector<int64_t>>(given);
    const bool is_list = wholes != nullptr || std::holds_alternative<std::vector<double>>(*given);
    for (const double value : is_list ? args.reals(name) : std::vector<double>{args.real(name)}) {
      if (value >= number(low) && value <= number(high)) {
        continue;
      }
      const bool is_whole = wholes != nullptr || std::holds_alternative<int64_t>(*given);
      return out_of_range(name, is_whole ? fmt::format("{:.0f}", value) : fmt::format("{}", value),
                          {"{} to {}{}", low, high,
                           name == "rotate" && value <= 360 ? fmt::format(", in radians: {:g} degrees are {:.4g}",
                                                                          value, value * std::numbers::pi / 180)
                                                            : ""});
    }
  }
  return {};
}

Status check_ends(const Attrs& args, std::string_view name, size_t least, size_t most) {
  const AttrValue* given = args.find(name);
  if (given == nullptr) {
    return {};
  }
  if (!std::holds_alternative<std::vector<int64_t>>(*given) && !std::holds_alternative<std::vector<double>>(*given)) {
    return out_of_range(name, "not a number", "a number, or a list of numbers");
  }
  const auto values = args.reals(name);
  if (values.size() < least || values.size() > most || !std::ranges::is_sorted(values)) {
    const std::string count = least == most ? fmt::format("{}", most) : fmt::format("{} or {}", least, most);
    return out_of_range(name, {"[{}]", fmt::join(values, ", ")},
                        {"{} numbers, the smaller first: {}=[{}]", count, name, most == 2 ? "a, b" : "a, b, c, d"});
  }
  return {};
}

Status check_interval(const Attrs& args, std::string_view name, int64_t limit) {
  const auto& interval = args.integers(name);
  if (interval.size() != 2 || interval[0] < 0 || interval[1] <= interval[0] || interval[1] > limit) {
    return out_of_range(name, {"{}", fmt::join(interval, "..")},
                        "a range a..b with 0 <= a < b" + (limit < INT64_MAX ? fmt::format(" <= {}", limit) : ""));
  }
  return {};
}

TensorType per_sample(DType dtype, std::vector<int64_t> dims, int64_t classes) {
  dims.insert(dims.begin(), kBatch);
  return {.dtype = dtype, .dims = std::move(dims), .classes = classes};
}

DType index_dtype(int64_t classes) { return classes > INT32_MAX ? DType::kI64 : DType::kI32; }

}  // namespace xrun
