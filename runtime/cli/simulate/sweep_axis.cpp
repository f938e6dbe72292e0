// Tests: tests/cases/simulate_test.cpp
#include "runtime/cli/simulate/sweep_axis.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>
#include <string_view>

#include "graph/base/errors.h"
#include "graph/base/units.h"

namespace xrun::cli {
namespace {

// A whole number of digits and underscores; nullopt for another text and for a number beyond 2^53.
std::optional<int64_t> whole_number(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_whole = fault == std::errc() && end == digits.data() + digits.size() && !text.starts_with('_');
  return is_whole && value >= 0 && value <= int64_t{1} << 53 ? std::optional(value) : std::nullopt;
}

struct Range {
  int64_t low = 0;
  int64_t high = 0;
  int64_t factor = 0;  // 0: each number; else each is this many times the one before
};

// Reads "1..8" and "1..64*2"; nullopt for another text, such as a curve `cosine(0.1 .. 0)`.
std::optional<Range> range_of(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    return std::nullopt;
  }
  const size_t star = text.find('*', dots);
  const auto low = whole_number(text.substr(0, dots));
  const auto high = whole_number(text.substr(dots + 2, star == std::string_view::npos ? star : star - dots - 2));
  const auto factor = star == std::string_view::npos ? std::optional<int64_t>(0) : whole_number(text.substr(star + 1));
  return low && high && factor ? std::optional(Range{*low, *high, *factor}) : std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// Divides a text at commas outside brackets and quotes.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    quoted = quoted != (c == '"');
    depth += quoted ? 0 : c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
    if (i == text.size() || (c == ',' && depth == 0 && !quoted)) {
      parts.push_back(trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  return parts;
}

Status add_range(const Range& range, std::string_view text, SweepAxis& axis) {
  if (range.low > range.high || (range.factor != 0 && (range.factor < 2 || range.low < 1))) {
    return usage_error("XG0639", {"`{}` is no range", text},
                       "write LOW..HIGH with the smaller number first, or LOW..HIGH*FACTOR with a factor of 2 or more");
  }
  for (int64_t value = range.low; value <= range.high; value = range.factor > 0 ? value * range.factor : value + 1) {
    if (axis.values.size() >= kMostPoints) {
      return usage_error(
          "XG0640", {"`{}` has more than {} values, and a sweep has at most {} points", text, kMostPoints, kMostPoints},
          "give a shorter range, or a factor: 1..4096*2");
    }
    axis.values.push_back(std::to_string(value));
  }
  return {};
}

}  // namespace

Result<SweepAxis> parse_axis(const std::string& text) {
  const size_t equals = text.find('=');
  SweepAxis axis{.key = std::string(trimmed(std::string_view(text).substr(0, equals))), .values = {}};
  if (axis.key.empty() || equals == std::string::npos) {
    return usage_error("XG0639", {"`--sweep {}` has no `=` after a key", text},
                       "write the key and its values: --sweep nodes=8,16,32");
  }
  for (const std::string_view part : parts_of(std::string_view(text).substr(equals + 1))) {
    if (part.empty()) {
      return usage_error("XG0639", {"`--sweep {}` lacks a value before or after a comma", text},
                         "write the values with a comma between them: --sweep nodes=8,16,32");
    }
    if (const auto range = range_of(part)) {
      XRUN_TRY(add_range(*range, part, axis));
    } else {
      axis.values.emplace_back(part);
    }
  }
  for (size_t i = 0; i < axis.values.size(); ++i) {
    if (std::find(axis.values.begin(), axis.values.begin() + static_cast<std::ptrdiff_t>(i), axis.values[i]) !=
        axis.values.begin() + static_cast<std::ptrdiff_t>(i)) {
      return usage_error("XG0639", {"`--sweep {}` has the value `{}` twice", axis.key, axis.values[i]},
                         "leave one of the two out");
    }
  }
  return axis;
}

Result<size_t> count_points(const std::vector<SweepAxis>& axes) {
  size_t count = 1;
  for (const SweepAxis& axis : axes) {
    count = std::min(count * axis.values.size(), size_t{1} << 40);
  }
  if (count > kMostPoints) {
    return usage_error("XG0640",
                       {"the values of all keys together are {} points, and a sweep has at most {}",
                        format_count(static_cast<int64_t>(count)), kMostPoints},
                       "leave out some values, or sweep over fewer keys at once");
  }
  return count;
}

std::vector<std::string> values_at(const std::vector<SweepAxis>& axes, size_t point) {
  std::vector<std::string> values(axes.size());
  for (size_t a = axes.size(); a-- > 0;) {
    values[a] = axes[a].values[point % axes[a].values.size()];
    point /= axes[a].values.size();
  }
  return values;
}

Result<FitRange> parse_fit(const std::string& text) {
  const size_t equals = text.find('=');
  FitRange fit{.key = std::string(trimmed(std::string_view(text).substr(0, equals)))};
  if (equals == std::string::npos && !fit.key.empty()) {
    return fit;
  }
  const auto range = range_of(trimmed(std::string_view(text).substr(std::min(equals + 1, text.size()))));
  if (fit.key.empty() || !range || range->factor != 0 || range->low > range->high) {
    return usage_error("XG0639", {"`--fit {}` is neither a key nor a key with a range of whole numbers", text},
                       "write --fit batch, or --fit batch=64..65536");
  }
  fit.low = range->low;
  fit.high = range->high;
  fit.is_given = true;
  return fit;
}

}  // namespace xrun::cli
