#include "runtime/formats/tables/csv_cells.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

namespace xrun::runtime {
namespace {

constexpr size_t kLongestWord = 4;
constexpr std::string_view kMissingWords[] = {"", "nan", "-nan", "na", "n/a", "#n/a", "<na>", "?", "null"};
constexpr std::string_view kPlaceholders[] = {"none", "n.a.", "-", "--", "."};

bool is_one_of(std::span<const std::string_view> words, std::string_view text) {
  if (text.size() > kLongestWord) {
    return false;
  }
  std::array<char, kLongestWord> lower{};
  std::ranges::transform(text, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return std::ranges::find(words, std::string_view(lower.data(), text.size())) != words.end();
}

// Returns the value of a number whose exponent does not fit f64: 0 or an infinity.
double beyond_f64(std::string_view text) {
  const size_t first = text.find_first_not_of("+-");
  const bool small = text.find_first_of("eE") != std::string_view::npos
                         ? text.find("e-") != std::string_view::npos || text.find("E-") != std::string_view::npos
                         : text.substr(first, 1) == "0" || text.substr(first, 1) == ".";
  const double value = small ? 0 : std::numeric_limits<double>::infinity();
  return text.starts_with('-') ? -value : value;
}

}  // namespace

bool is_missing_value(std::string_view text) { return is_one_of(kMissingWords, text); }

CsvCell classify_cell(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with('+') && digits.size() > 1 && digits[1] != '-') {
    digits.remove_prefix(1);
  }
  double value = 0;
  const auto [last, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (!digits.empty() && last == digits.data() + digits.size() && fault != std::errc::invalid_argument) {
    value = fault == std::errc() ? value : beyond_f64(digits);
    if (std::isnan(value)) {
      return {CsvCell::kMissing};
    }
    const bool fits = std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max());
    return {CsvCell::kNumber, fits ? value : std::copysign(std::numeric_limits<double>::infinity(), value)};
  }
  if (is_missing_value(text)) {
    return {CsvCell::kMissing};
  }
  return {is_one_of(kPlaceholders, text) ? CsvCell::kPlaceholder : CsvCell::kText};
}

}  // namespace xrun::runtime
