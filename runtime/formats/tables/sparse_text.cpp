#include "runtime/formats/tables/sparse_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kSpaces = " \t\r";

// Removes the text up to the next space from `text` and returns it; skips the spaces before it. Empty at the end.
std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(kSpaces));
  text.remove_prefix(word.size());
  return word;
}

template <class Number>
std::optional<Number> number_of(std::string_view word) {
  Number value{};
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), value);
  return fault == std::errc() && end == word.data() + word.size() ? std::optional(value) : std::nullopt;
}

Error broken_row(std::string_view what, std::string_view word, std::string_view wanted) {
  constexpr size_t kShown = 40;
  return content_error(
      "XG0412", {"the {} \"{}{}\" is not {}", what, word.substr(0, kShown), word.size() > kShown ? ".." : "", wanted},
      "correct the line, or raise `max_bad`");
}

}  // namespace

Result<SparseHeader> parse_sparse_header(std::string_view line, std::string_view name) {
  std::optional<int64_t> counts[3];
  for (auto& count : counts) {
    count = number_of<int64_t>(next_word(line));
  }
  const bool is_good = std::ranges::all_of(counts, [](const auto& count) { return count && *count >= 0; });
  if (!is_good || !next_word(line).empty()) {
    return content_error("XG0412", {"{}: its first line is not three whole numbers: rows, features, labels", name},
                         "write this line before the rows: 15539 5000 3993");
  }
  if (*counts[1] == 0) {
    return content_error("XG0412", {"{}: its first line says that rows have no features", name},
                         "write rows, features and labels into the first line, in this order");
  }
  return SparseHeader{*counts[0], *counts[1], *counts[2]};
}

Result<SparseRow> parse_sparse_row(std::string_view line, int64_t labels) {
  SparseRow row{.features = line};
  std::string_view word = line.substr(0, line.find_first_of(kSpaces));
  if (word.empty() || word.find(':') != std::string_view::npos) {
    return row;
  }
  row.features.remove_prefix(word.size());
  for (bool more = true; more;) {
    const std::string_view text = word.substr(0, word.find(','));
    more = text.size() < word.size();
    word.remove_prefix(std::min(text.size() + 1, word.size()));
    const auto label = number_of<int64_t>(text);
    if (!label || *label < 0 || *label >= labels) {
      return broken_row("label", text, "a whole number below the " + std::to_string(labels) + " labels");
    }
    row.first = row.labels == 0 ? *label : row.first;
    ++row.labels;
  }
  return row;
}

Status for_each_sparse_feature(std::string_view text, int64_t features,
                               const std::function<void(int64_t feature, float value)>& use) {
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    const size_t colon = word.find(':');
    const auto feature = number_of<int64_t>(word.substr(0, colon));
    const auto value = colon == std::string_view::npos ? std::nullopt : number_of<double>(word.substr(colon + 1));
    if (!feature || !value) {
      return broken_row("pair", word, "FEATURE:VALUE");
    }
    if (*feature < 0 || *feature >= features) {
      return broken_row("pair", word, "of a feature below " + std::to_string(features));
    }
    const auto narrow = static_cast<float>(*value);
    if (!std::isfinite(narrow)) {
      return broken_row("pair", word, "a finite f32");
    }
    use(*feature, narrow);
  }
  return {};
}

}  // namespace xrun::runtime
