#include "ops/first_values.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "ops/shape.h"

namespace xrun::ops {
namespace {

constexpr const char* kKnown =
    "write he_normal(), xavier_normal(), lecun_normal(), normal(0.02), constant(0.1), zeros() or ones()";

// The parts of "normal(0.02)".
struct CallText {
  std::string_view name;
  std::string_view argument;
};

CallText parts_of(std::string_view text) {
  const size_t open = text.find('(');
  if (open == std::string_view::npos || !text.ends_with(')')) {
    return {text, {}};
  }
  return {text.substr(0, open), text.substr(open + 1, text.size() - open - 2)};
}

std::optional<double> number_of(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(number) ? std::optional(number)
                                                                                           : std::nullopt;
}

Init normal(double variance) { return {.kind = Init::kNormal, .value = std::sqrt(variance)}; }

}  // namespace

Result<Init> init_of(std::string_view op, const Attrs& attrs, int64_t fan_in, int64_t fan_out, Init otherwise) {
  const AttrValue* given = attrs.find("init");
  if (given == nullptr) {
    return otherwise;
  }
  if (!std::holds_alternative<std::string>(*given)) {
    const bool number = std::holds_alternative<double>(*given) || std::holds_alternative<int64_t>(*given);
    return number ? Result<Init>(Init{.value = attrs.real("init")})
                  : argument_error("`" + std::string(op) + "` has init = " + to_text(*given), kKnown);
  }
  const CallText call = parts_of(attrs.text("init"));
  const auto in = static_cast<double>(fan_in);
  if (call.name == "normal" || call.name == "constant") {
    const auto number = number_of(call.argument);
    if (!number || (call.name == "normal" && *number < 0)) {
      return argument_error(
          "`" + std::string(op) + "` has init = " + attrs.text("init"),
          call.name == "normal" ? "give its standard deviation: normal(0.02)" : "give the value: constant(0.1)");
    }
    return call.name == "normal" ? Init{.kind = Init::kNormal, .value = *number} : Init{.value = *number};
  }
  if (call.argument.empty()) {
    if (call.name == "he_normal") {
      return he_normal(fan_in);
    }
    if (call.name == "xavier_normal") {
      return normal(2 / (in + static_cast<double>(fan_out)));
    }
    if (call.name == "lecun_normal") {
      return normal(1 / in);
    }
    if (call.name == "zeros" || call.name == "ones") {
      return Init{.value = call.name == "ones" ? 1.0 : 0.0};
    }
  }
  return argument_error("`" + std::string(op) + "` has init = " + attrs.text("init"), kKnown);
}

}  // namespace xrun::ops
