// Tests: tests/runtime/data/readers/list_test.cpp
#include "runtime/data/readers/label_texts.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>

#include "graph/base/errors.h"
#include "runtime/data/readers/label_numbers.h"
#include "runtime/formats/records/record_texts.h"

namespace xrun::runtime {

void LabelTexts::add(std::string_view text, const std::string& path, int64_t line) {
  const auto [found, is_new] = numbers_.try_emplace(std::string(text), static_cast<int32_t>(texts_.size()));
  if (is_new) {
    texts_.push_back({std::string(text), fmt::format("{}:{}", path, line)});
  }
  ++texts_[static_cast<size_t>(found->second)].uses;
  samples_.push_back(found->second);
}

Result<ListLabels> LabelTexts::resolve(const Attrs& args, const std::string& path) {
  numbers_.clear();
  const auto is_number = [](const Text& text) { return decimal_number(text.text).has_value(); };
  const auto word = std::ranges::find_if_not(texts_, is_number);
  if (word == texts_.end()) {
    return as_numbers(args, path);
  }
  if (args.has("classes")) {
    return content_error("XG0402",
                         {"{}: the label `{}` is not a number, but `classes` is given", word->place, word->text},
                         "correct the label, or leave `classes` out: labels are then the names of the classes");
  }
  const bool alone = texts_.size() > 1 && word == texts_.begin() && word->uses == 1;
  if (alone && std::all_of(texts_.begin() + 1, texts_.end(), is_number)) {
    return content_error("XG0412",
                         {"{}: the label `{}` is not a number, but all other labels are", word->place, word->text},
                         "if the first line has the names of the columns, write header=true");
  }
  return as_names();
}

Result<ListLabels> LabelTexts::as_numbers(const Attrs& args, const std::string& path) {
  std::vector<int32_t> labels;
  for (const Text& text : texts_) {
    const double number = *decimal_number(text.text);
    if (number != std::floor(number) || std::abs(number) > std::numeric_limits<int32_t>::max()) {
      return content_error("XG0402",
                           {"{}: the label `{}` is not the number of a class: a whole number below 2 147 483 648",
                            text.place, text.text},
                           "number the classes from 0, or give them names");
    }
    labels.push_back(static_cast<int32_t>(number));
  }
  const int64_t largest = labels.empty() ? -1 : std::max<int64_t>(*std::ranges::max_element(labels), -1);
  XRUN_ASSIGN(const int64_t classes, count_classes(args, largest, std::ssize(samples_), path));
  for (int32_t& sample : samples_) {
    sample = labels[static_cast<size_t>(sample)];
  }
  return ListLabels{std::move(samples_), {}, classes};
}

ListLabels LabelTexts::as_names() {
  std::vector<int32_t> order(texts_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto name_of = [&](int32_t i) -> const std::string& { return texts_[static_cast<size_t>(i)].text; };
  std::ranges::sort(order, {}, name_of);
  ListLabels made;
  std::vector<int32_t> label_of(order.size());
  for (const int32_t i : order) {
    label_of[static_cast<size_t>(i)] = static_cast<int32_t>(made.names.size());
    made.names.push_back(name_of(i));
  }
  for (int32_t& sample : samples_) {
    sample = label_of[static_cast<size_t>(sample)];
  }
  made.labels = std::move(samples_);
  made.classes = std::ssize(made.names);
  return made;
}

}  // namespace xrun::runtime
