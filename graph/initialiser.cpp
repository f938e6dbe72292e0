// Tests: tests/lang/elaborate/bodies/pointwise_test.cpp, tests/runtime/train/state/train_state_test.cpp
#include "graph/initialiser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace xrun {
namespace {

enum class Argument { kNone, kAny, kPositive };

struct InitRule {
  std::string_view name;
  Argument argument;
  std::string_view example;
  Init (*make)(double argument, double in, double out);
};

Init normal(double variance) { return {.kind = Init::kNormal, .value = std::sqrt(variance)}; }
Init uniform(double variance) { return {.kind = Init::kUniform, .value = std::sqrt(3 * variance)}; }

constexpr std::array<InitRule, 12> kRules{{
    {"he_normal", Argument::kNone, "he_normal()",
     [](double, double in, double) { return Init{.kind = Init::kHeNormal, .fan_in = static_cast<int64_t>(in)}; }},
    {"xavier_normal", Argument::kNone, "xavier_normal()",
     [](double, double in, double out) { return normal(2 / (in + out)); }},
    {"lecun_normal", Argument::kNone, "lecun_normal()", [](double, double in, double) { return normal(1 / in); }},
    {"he_uniform", Argument::kNone, "he_uniform()", [](double, double in, double) { return uniform(2 / in); }},
    {"xavier_uniform", Argument::kNone, "xavier_uniform()",
     [](double, double in, double out) { return uniform(2 / (in + out)); }},
    {"lecun_uniform", Argument::kNone, "lecun_uniform()", [](double, double in, double) { return uniform(1 / in); }},
    {"normal", Argument::kPositive, "normal(0.02)",
     [](double x, double, double) { return Init{.kind = Init::kNormal, .value = x}; }},
    {"trunc_normal", Argument::kPositive, "trunc_normal(0.02)",
     [](double x, double, double) { return Init{.kind = Init::kTruncNormal, .value = x}; }},
    {"uniform", Argument::kPositive, "uniform(0.1)",
     [](double x, double, double) { return Init{.kind = Init::kUniform, .value = x}; }},
    {"constant", Argument::kAny, "constant(0.1)", [](double x, double, double) { return Init{.value = x}; }},
    {"zeros", Argument::kNone, "zeros()", [](double, double, double) { return Init{.value = 0}; }},
    {"ones", Argument::kNone, "ones()", [](double, double, double) { return Init{.value = 1}; }},
}};

constexpr auto kForms = [] {
  std::array<std::string_view, kRules.size()> forms{};
  for (size_t i = 0; i < kRules.size(); ++i) {
    forms[i] = kRules[i].example;
  }
  return forms;
}();

// The parts of a text such as "normal(0.02)": "normal" and "0.02".
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
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::fabs(number) <= std::numeric_limits<float>::max() ? std::optional(number) : std::nullopt;
}

}  // namespace

Result<Init> find_init(std::string_view text, const Fans& fans) {
  const CallText call = parts_of(text);
  const auto rule = std::ranges::find(kRules, call.name, &InitRule::name);
  const auto refused = [](const char* code, std::string message, std::string help) {
    return Error{ErrorKind::kContent, code, std::move(message), std::move(help)};
  };
  if (rule == kRules.end()) {
    std::string known;
    for (const std::string_view form : kForms) {
      known += (known.empty() ? "" : ", ") + std::string(form);
    }
    return refused("XG0201", "there is no initialiser `" + std::string(call.name) + "`", "write one of " + known);
  }
  const std::string name = "`" + std::string(rule->name) + "`";
  const std::string help = "write " + std::string(rule->example);
  const auto number = number_of(call.argument);
  const bool one = !call.argument.empty() && call.argument.find(',') == std::string_view::npos;
  if (rule->argument == Argument::kNone ? !call.argument.empty() : !one) {
    return refused("XG0204", name + (rule->argument == Argument::kNone ? " takes no arguments" : " takes one number"),
                   help);
  }
  if (rule->argument != Argument::kNone && (!number || (rule->argument == Argument::kPositive && *number < 0))) {
    return refused("XG0303",
                   name + " takes a number" + (rule->argument == Argument::kPositive ? " of at least 0" : "") +
                       ", not " + std::string(call.argument),
                   help);
  }
  return rule->make(number.value_or(0), static_cast<double>(std::max<int64_t>(fans.in, 1)),
                    static_cast<double>(std::max<int64_t>(fans.out, 1)));
}

std::span<const std::string_view> init_forms() { return kForms; }

}  // namespace xrun
