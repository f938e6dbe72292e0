// Tests: tests/runtime/runs/partial_labels_test.cpp
#include "runtime/data/augment/ignore.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <set>

#include "graph/base/errors.h"
#include "runtime/formats/tables/csv_cells.h"

namespace xrun::runtime {
namespace {

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Returns kNoLabel if the number is to be ignored. The members of the step have these meanings:
//   values  ignored numbers, ascending
//   size    1: missing values are ignored
//   extra   1: the numbers stand for texts, so the remaining ones are renumbered without gaps
double labelled(const AugmentStep& step, double number) {
  if (std::isnan(number)) {
    return step.size != 0 ? kNoLabel : number;
  }
  const auto at = std::ranges::lower_bound(step.values, number);
  if (at != step.values.end() && *at == number) {
    return kNoLabel;
  }
  return step.extra != 0 ? number - static_cast<double>(at - step.values.begin()) : number;
}

Status run_ignore(const AugmentStep& step, AugmentScratch& scratch, const DrawKey&) {
  const bool is_row = scratch.form == AugmentScratch::kPicture || scratch.form == AugmentScratch::kRow ||
                      (scratch.form == AugmentScratch::kSource && scratch.source.rank > 0);
  if (is_row) {
    load_row(scratch);
    std::ranges::transform(scratch.row, scratch.row.begin(), [&](double number) { return labelled(step, number); });
    return {};
  }
  scratch.number = labelled(step, number_of(scratch));
  scratch.form = AugmentScratch::kNumber;
  return {};
}

}  // namespace

bool ignores_texts(const CallSpec& call) {
  const AttrValue* values = call.args.find("values");
  return values != nullptr && std::holds_alternative<TextList>(*values);
}

bool ignores_missing(const CallSpec& call) {
  return call.args.flag("missing", false) ||
         (ignores_texts(call) && std::ranges::any_of(call.args.texts("values"), is_missing_value));
}

namespace {

// The ignored values of the call, as texts.
std::set<std::string> names_of(const CallSpec& call) {
  if (ignores_texts(call)) {
    const std::vector<std::string>& texts = call.args.texts("values");
    return {texts.begin(), texts.end()};
  }
  std::set<std::string> names;
  if (call.args.has("values")) {
    for (const int64_t number : call.args.integers("values")) {
      names.insert(fmt::format("{}", number));
    }
  }
  return names;
}

}  // namespace

AugmentStep ignore_step(const CallSpec& call, std::vector<std::string>& texts, std::vector<std::string>& unmatched) {
  AugmentStep step{.run = run_ignore};
  step.size = ignores_missing(call) ? 1 : 0;
  step.extra = texts.empty() ? 0 : 1;
  const std::set<std::string> names = names_of(call);
  if (texts.empty()) {
    for (const std::string& name : names) {
      if (const auto number = whole_number(name)) {
        step.values.push_back(static_cast<double>(*number));
      }
    }
    std::ranges::sort(step.values);
    return step;
  }
  std::vector<std::string> kept;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (names.contains(texts[i])) {
      step.values.push_back(static_cast<double>(i));
    } else {
      kept.push_back(texts[i]);
    }
  }
  std::ranges::copy_if(names, std::back_inserter(unmatched), [&](const std::string& name) {
    return std::ranges::find(texts, name) == texts.end() && !is_missing_value(name);
  });
  texts = std::move(kept);
  return step;
}

Error nothing_to_ignore(const std::string& input, const std::vector<std::string>& texts) {
  return content_error("XG0426",
                       {"`ignore` of `{}` names `{}`, but source `train` has no such cell or directory", input,
                        fmt::join(texts, "`, `")},
                       "correct the name, or leave it out");
}

}  // namespace xrun::runtime
