// Tests: tests/cases/command_words_test.cpp
#include "runtime/cli/console/counts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "lang/text/number.h"

namespace xrun::cli {
namespace {

// Removes a suffix from the text and returns its factor; 1 if the text has no suffix.
int64_t take_multiplier(std::string_view& text) {
  constexpr std::array<std::pair<char, int64_t>, 5> kSuffixes{
      {{'k', 1'000}, {'K', 1'000}, {'M', 1'000'000}, {'G', 1'000'000'000}, {'T', 1'000'000'000'000}}};
  for (const auto& [suffix, multiplier] : kSuffixes) {
    if (text.ends_with(suffix)) {
      text.remove_suffix(1);
      return multiplier;
    }
  }
  return 1;
}

// The digits without `_`. Nullopt if a `_` is not between two digits.
std::optional<std::string> joined_digits(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || i + 1 == text.size() || text[i - 1] == '_' || text[i - 1] == '.' || text[i + 1] == '.') {
      return std::nullopt;
    }
  }
  return digits;
}

std::optional<int64_t> number_of(std::string_view digits, int base) {
  int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, code] = std::from_chars(digits.data(), end, value, base);
  const bool plain = !digits.empty() && digits[0] != '-' && code == std::errc() && at == end;
  return plain ? std::optional(value) : std::nullopt;
}

bool is_number(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto begins = [&](std::string_view name) { return type == name || type.starts_with(std::string(name) + ":"); };
  return begins("INT") || begins("UINT") || begins("N") || begins("SECONDS");
}

bool is_real(const CLI::Option& option) { return option.get_type_name().starts_with("FLOAT"); }

// `strict`: rejects texts that are not counts.
CLI::Validator counts(bool strict) {
  return {[strict](std::string& text) {
            if (const auto count = parse_count(text)) {
              text = std::to_string(*count);
              return std::string();
            }
            return strict ? "`" + text + "` is not a whole number, such as 20000, 20_000 or 20K" : std::string();
          },
          ""};
}

}  // namespace

std::optional<int64_t> parse_count(std::string_view text) {
  const bool negative = text.starts_with('-');
  text.remove_prefix(negative ? 1 : 0);
  if (text.starts_with("0x") || text.starts_with("0X")) {
    const auto digits = joined_digits(text.substr(2));
    const auto value = digits ? number_of(*digits, 16) : std::nullopt;
    return value && negative ? -*value : value;
  }
  int64_t multiplier = take_multiplier(text);
  const auto digits = joined_digits(text);
  if (!digits) {
    return std::nullopt;
  }
  const size_t dot = std::min(digits->find('.'), digits->size());
  auto value = number_of(digits->substr(0, dot), 10);
  if (!value || (dot < digits->size() && (multiplier == 1 || dot + 1 == digits->size())) ||
      *value > std::numeric_limits<int64_t>::max() / multiplier) {
    return std::nullopt;
  }
  *value *= multiplier;
  for (size_t i = dot + 1; i < digits->size(); ++i) {
    const char digit = (*digits)[i];
    if (digit < '0' || digit > '9' || (digit != '0' && multiplier == 1)) {
      return std::nullopt;
    }
    multiplier = std::max<int64_t>(multiplier / 10, 1);
    const int64_t more = digit == '0' ? 0 : (digit - '0') * multiplier;
    if (*value > std::numeric_limits<int64_t>::max() - more) {
      return std::nullopt;
    }
    *value += more;
  }
  return negative ? -*value : *value;
}

std::optional<Seconds> parse_time(std::string_view text) {
  Seconds number = 0;
  const auto [at, code] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const auto unit = lang::find_unit(text.substr(static_cast<size_t>(at - text.data())));
  if (code != std::errc() || !unit || lang::info_of(*unit).dimension != lang::Dimension::kTime) {
    return std::nullopt;
  }
  const Seconds time =
      number * static_cast<double>(lang::info_of(*unit).scale) / static_cast<double>(lang::info_of(*unit).divisor);
  return time > 0 && std::isfinite(time) ? std::optional(time) : std::nullopt;
}

void check_values(CLI::App& app) {
  const CLI::Validator not_empty(
      [](std::string& text) { return text.empty() ? std::string("its value is empty") : std::string(); }, "");
  for (CLI::Option* option : app.get_options()) {
    if (is_number(*option) || is_real(*option)) {
      option->transform(counts(is_number(*option)));
    } else if (option->get_type_size_max() > 0) {  // the option takes a value
      option->transform(not_empty);
    }
  }
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    check_values(*command);
  }
}

}  // namespace xrun::cli
