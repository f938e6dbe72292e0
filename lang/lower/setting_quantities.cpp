// Reads the values of settings that have a unit: spans of training, sizes, rates and times.
// Tests: tests/lang/lower/settings_test.cpp, tests/lang/nothing_ignored_test.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "lang/lower/module_builder.h"

namespace xrun::lang {
namespace {

std::string_view example_of(Dimension dimension) {
  return dimension == Dimension::kSize   ? "16GiB"
         : dimension == Dimension::kRate ? "25Gbit/s"
         : dimension == Dimension::kTime ? "20us"
                                         : "a number with its unit";
}

// Letters after a number that multiply it, as in 5M.
constexpr std::string_view kScales = "kMGT";

}  // namespace

std::optional<TrainSpan> ModuleBuilder::train_span(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto value = value_of(node, scope, def);
  return value ? train_span(*value, fmt::format("`{}`", node.key), value->span) : std::nullopt;
}

std::optional<TrainSpan> ModuleBuilder::train_span(const Datum& value, std::string_view what, Span at) {
  TrainSpan span{.amount = value.as_double()};
  if (value.number() && value.dimension == Dimension::kSteps) {
    span.unit = TrainSpan::kSteps;
  } else if (value.number() && value.dimension == Dimension::kEpochs) {
    span.unit = TrainSpan::kEpochs;
  } else if (value.number() && value.dimension == Dimension::kSamples) {
    span.unit = TrainSpan::kSamples;
  } else if (value.plain_number()) {
    const std::string_view one = value.as_double() == 1 ? "" : "s";
    std::vector<UnitChoice> units{{fmt::format(" epoch{}", one), ""}};
    if (whole_number(value)) {
      units.insert(units.begin(), {fmt::format(" step{}", one), ""});
    }
    refuse_bare(at, fmt::format("{} expects a span of training, but {} has no unit", what, to_text(value)), units,
                "put its unit where the number is written, as in 500 steps");
    return std::nullopt;
  } else {
    return ev_.refuse("XG0107", at, {"{} expects a span of training, but gets {}", what, kind_text(value)}, "",
                      {"write a number of steps, epochs or samples: 500 steps"});
  }
  if (!(span.amount > 0)) {
    return ev_.refuse("XG0214", at, {"{} cannot be {}", what, to_text(value)}, "", {"write more than 0"});
  }
  if (const double near = std::round(span.amount); std::fabs(span.amount - near) <= 1e-9 * span.amount) {
    span.amount = near;  // 7% * 100 steps is not exactly 7
  }
  if (span.unit != TrainSpan::kEpochs && !to_int64(span.amount)) {
    return ev_.refuse("XG0214", at, {"{} cannot be {}", what, to_text(value)}, "not a whole number",
                      {"write a whole number of them, or a part of an epoch: 0.5 epochs"});
  }
  return span;
}

std::optional<double> ModuleBuilder::quantity(const SettingNode& node, Scope& scope, const SettingDef& def,
                                              Dimension dimension) {
  const auto value = value_of(node, scope, def);
  const auto number = value ? quantity(*value, node.key, value->span, dimension) : std::nullopt;
  if (number && *number < def.low) {
    return ev_.refuse("XG0214", value->span, {"`{}` cannot be {}", node.key, to_text(*value)}, "",
                      {"write {}, such as {}", name_of(dimension), example_of(dimension)});
  }
  return number;
}

std::optional<Bytes> ModuleBuilder::size(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto value = value_of(node, scope, def);
  const auto bytes = value ? quantity(*value, node.key, value->span, Dimension::kSize) : std::nullopt;
  if (bytes && !(*bytes >= def.low && *bytes <= def.high)) {
    return ev_.refuse("XG0214", value->span, {"`{}` cannot be {}", node.key, to_text(*value)}, "",
                      {*bytes > def.high ? "write at most 1_000_000TiB" : "write 1B or more"});
  }
  return bytes ? std::optional(static_cast<Bytes>(*bytes)) : std::nullopt;
}

std::optional<double> ModuleBuilder::quantity(const Datum& value, std::string_view what, Span at, Dimension dimension) {
  if (value.number() && value.dimension == dimension) {
    if (value.as_double() < 0) {
      return ev_.refuse("XG0214", at, {"`{}` cannot be {}", what, to_text(value)}, "", {"leave the `-` out"});
    }
    return value.as_double();
  }
  if (!value.plain_number()) {
    return ev_.refuse(value.number() ? "XG0107" : "XG0205", at,
                      {"`{}` expects {}, but gets {}", what, name_of(dimension), kind_text(value)}, "",
                      {"write {}, such as {}", name_of(dimension), example_of(dimension)});
  }
  std::vector<UnitChoice> units;
  const std::string_view text = ev_.sources().text(at);
  if (const bool scaled = !text.empty() && kScales.find(text.back()) != std::string_view::npos;
      scaled && (dimension == Dimension::kRate || dimension == Dimension::kSize)) {
    units = dimension == Dimension::kRate ? std::vector<UnitChoice>{{"bit/s", ""}, {"B/s", ""}}
            : text.back() == 'k'          ? std::vector<UnitChoice>{{"B", ""}}
                                          : std::vector<UnitChoice>{{"B", ""}, {"iB", ""}};
  } else if (dimension == Dimension::kRate) {
    units = {{"Gbit/s", fmt::format("   # {:.2g} GB/s", value.as_double() / 8)},
             {"GB/s", fmt::format("     # {:g} Gbit/s", value.as_double() * 8)}};
  } else if (dimension == Dimension::kSize) {
    units = {{"GiB", ""}, {"MiB", ""}};
  } else if (dimension == Dimension::kTime) {
    units = {{"us", ""}, {"ms", ""}, {"s", ""}};
  }
  refuse_bare(at, fmt::format("`{}` expects {}, but {} has no unit", what, name_of(dimension), to_text(value)), units,
              fmt::format("put its unit where the number is written, as in {}", example_of(dimension)));
  return std::nullopt;
}

// Reports a number without a unit. For a literal there is one fix for each possible unit.
void ModuleBuilder::refuse_bare(Span at, std::string message, const std::vector<UnitChoice>& units,
                                std::string otherwise) {
  std::string_view number = ev_.sources().text(at);
  if (!number.empty() && kScales.find(number.back()) != std::string_view::npos) {
    number.remove_suffix(1);
  }
  const bool literal = number.find_first_not_of("0123456789._") == std::string_view::npos;
  std::vector<Fix> fixes;
  if (literal && !number.empty()) {
    const int line = ev_.sources().position(at.file, at.begin).line;
    const std::string_view text = ev_.sources().line(at.file, line);
    const auto begin = static_cast<uint32_t>(text.data() - ev_.sources().text(at.file).data());
    const uint32_t end = begin + static_cast<uint32_t>(text.size());
    for (const UnitChoice& unit : units) {
      // Two edits at one place would have no order, so a number at the end of its line gets one edit with both texts.
      const bool at_end = at.end == end;
      fixes.push_back(
          replacement("say which one you mean", {at.file, at.end, at.end}, unit.text + (at_end ? unit.comment : "")));
      if (!unit.comment.empty() && !at_end) {
        fixes.back().edits.push_back({{at.file, end, end}, unit.comment});
      }
    }
  }
  if (fixes.empty()) {
    fixes.push_back({std::move(otherwise)});
  }
  Diagnostic d = fault("XG0107", at, std::move(message), "a plain number", fixes[0]);
  d.fixes = std::move(fixes);
  ev_.report(std::move(d));
}

}  // namespace xrun::lang
