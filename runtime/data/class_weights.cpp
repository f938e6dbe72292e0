#include "runtime/data/class_weights.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <optional>

#include "graph/base/errors.h"
#include "runtime/data/readers/csv.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kLargestTable = kGiB;

// Finds the number of a class by its name. If no class has that name, the text is parsed as the number itself.
class ClassNumbers {
 public:
  ClassNumbers(int64_t classes, std::span<const std::string> names) : classes_(classes), names_(names) {
    for (size_t i = 0; i < names.size(); ++i) {
      by_name_.emplace(names[i], static_cast<int64_t>(i));
    }
  }
  std::optional<int64_t> find(std::string_view text) const {
    if (const auto named = by_name_.find(text); named != by_name_.end()) {
      return named->second;
    }
    int64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = fault == std::errc() && end == text.data() + text.size();
    return whole && number >= 0 && number < classes_ ? std::optional(number) : std::nullopt;
  }
  std::string text_of(int64_t number) const {
    return number < std::ssize(names_) ? fmt::format("`{}`", names_[static_cast<size_t>(number)])
                                       : fmt::format("{}", number);
  }
  std::string choices() const {
    constexpr size_t kShown = 10;
    return names_.empty()
               ? fmt::format("classes are 0..{}", classes_ - 1)
               : fmt::format("classes are {}{}", fmt::join(names_.first(std::min(kShown, names_.size())), ", "),
                             names_.size() > kShown ? fmt::format(" and {} more", names_.size() - kShown) : "");
  }

 private:
  int64_t classes_;
  std::span<const std::string> names_;
  std::map<std::string, int64_t, std::less<>> by_name_;
};

// Returns the weights in the table, by class and not yet scaled.
Result<std::vector<double>> listed_by_class(const ListedWeights& table, const ClassNumbers& classes,
                                            std::span<const int64_t> counts) {
  std::vector<double> weights(counts.size(), 0);
  std::vector<int64_t> lines(counts.size(), 0);
  for (const ListedWeight& one : table.weights) {
    const std::string place = fmt::format("{}:{}", table.path, one.line);
    const auto found = classes.find(one.name);
    if (!found) {
      return content_error("XG0402", {"{}: the training data have no class `{}`", place, one.name}, classes.choices());
    }
    int64_t& line = lines[static_cast<size_t>(*found)];
    if (line > 0) {
      return content_error("XG0402", {"{}: the class {} has a weight already", place, classes.text_of(*found)},
                           {"it is also in line {}: remove one of the two", line});
    }
    line = one.line;
    weights[static_cast<size_t>(*found)] = one.weight;
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0 && lines[i] == 0) {
      const std::string name = classes.text_of(static_cast<int64_t>(i));
      Error error = content_error("XG0402",
                                  {"{} has no weight for the class {}, which has {} {}", table.path, name,
                                   format_count(counts[i]), counts[i] == 1 ? "sample" : "samples"},
                                  "add a line for it; a weight of 0 leaves its samples out of the loss");
      if (table.header) {
        error.notes.push_back("the first line was read as the names of the columns");
      }
      return error;
    }
  }
  return weights;
}

Result<std::vector<float>> weights_of(const ClassWeightsSpec& spec, std::span<const int32_t> labels, int64_t classes,
                                      std::span<const std::string> names) {
  std::vector<int64_t> counts(static_cast<size_t>(classes), 0);
  int64_t samples = 0;
  for (const int32_t label : labels) {
    if (label >= 0) {
      ++counts[static_cast<size_t>(label)];
      ++samples;
    }
  }
  std::vector<double> weights(counts.size(), 0);
  if (spec.kind == ClassWeightsSpec::kCsv) {
    XRUN_ASSIGN(const ListedWeights table, read_class_weights(spec));
    XRUN_ASSIGN(weights, listed_by_class(table, ClassNumbers(classes, names), counts));
  } else {
    std::ranges::transform(counts, weights.begin(),
                           [](int64_t count) { return count > 0 ? 1 / static_cast<double>(count) : 0; });
  }
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    sum += weights[i] * static_cast<double>(counts[i]);
  }
  if (!(sum > 0)) {
    return content_error("XG0402", {"{} gives every training sample the weight 0", spec.path},
                         "give at least one class with samples a weight above 0");
  }
  std::vector<float> scaled(counts.size());
  std::ranges::transform(weights, scaled.begin(), [&](double weight) {
    return static_cast<float>(weight * static_cast<double>(samples) / sum);
  });
  return scaled;
}

Result<ListedWeights> read_table(const ClassWeightsSpec& spec) {
  ListedWeights listed{.path = resolve_path(spec.directory, spec.path), .weights = {}};
  CsvOptions options{.missing_values = false, .texts = {int64_t{0}}, .largest = kLargestTable};
  XRUN_ASSIGN(CsvTable table, read_csv(listed.path, options));
  if (table.columns.size() == 2 && !table.columns[1].fault.empty()) {
    options.header = listed.header = true;
    XRUN_ASSIGN(table, read_csv(listed.path, options));
  }
  if (table.rows > 0 && table.columns.size() != 2) {
    return content_error("XG0412", {"{}: the table has {} columns, not two", listed.path, table.columns.size()},
                         "write a class and its weight in each line: cat,2.5");
  }
  if (table.rows > 0 && !table.columns[1].fault.empty()) {
    return content_error("XG0412", table.columns[1].fault, "write the weight as a number of 0 or more");
  }
  for (int64_t row = 0; row < table.rows; ++row) {
    const double* cells = table.numbers.data() + 2 * row;
    const std::string& name = table.columns[0].texts[static_cast<size_t>(cells[0])];
    if (!(cells[1] >= 0 && std::isfinite(cells[1]))) {
      return content_error("XG0412",
                           {"{}:{}: the weight of `{}` is {}", listed.path, table.line_of(row), name,
                            std::isinf(cells[1]) ? "infinite or more than f32 can hold" : fmt::format("{}", cells[1])},
                           "write the weight as a number of 0 or more");
    }
    listed.weights.push_back({name, cells[1], table.line_of(row)});
  }
  return listed;
}

template <typename T>
Result<T> at(Result<T> result, const Span& span) {
  if (result.ok()) {
    return result;
  }
  Error error = std::move(result).error();
  error.span = span;
  return error;
}

}  // namespace

Result<ListedWeights> read_class_weights(const ClassWeightsSpec& spec) { return at(read_table(spec), spec.span); }

Result<std::vector<float>> class_weights(const ClassWeightsSpec& spec, std::span<const int32_t> labels, int64_t classes,
                                         std::span<const std::string> names) {
  return at(weights_of(spec, labels, classes, names), spec.span);
}

}  // namespace xrun::runtime
