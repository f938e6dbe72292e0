// Tests: tests/cases/tables_test.cpp, tests/cases/labels_out_of_range_test.cpp
#include "runtime/data/augment/label_faults.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <optional>

#include "graph/base/errors.h"
#include "runtime/data/augment/augment.h"

namespace xrun::runtime {
namespace {

constexpr int64_t kMostScanned = int64_t{1} << 28;  // limit of the labels to read, which takes a second from memory

std::string from_one_help(int64_t classes) {
  return fmt::format("all labels are in 1..{}: count them from 1, `as_index({}, first=1)`", classes,
                     format_with_underscores(classes));
}

// Returns the label in a field before the stages of the binding change it; -1 if it cannot be read.
int64_t raw_label(const Reader& reader, int64_t sample, int field, FieldValue& value) {
  if (!reader.read(sample, field, value).ok() || value.rank != 0) {
    return -1;
  }
  int64_t label = 0;
  if (value.dtype == DType::kI64) {
    std::memcpy(&label, value.bytes.data(), sizeof label);
  } else if (value.dtype == DType::kI32) {
    int32_t narrow = 0;
    std::memcpy(&narrow, value.bytes.data(), sizeof narrow);
    label = narrow;
  }
  return label;
}

struct Range {
  int64_t least = INT64_MAX;
  int64_t beyond = INT64_MAX;  // the lowest label that is too large for the number of classes
};

Range range_of(const Reader& reader, int field, int64_t classes) {
  Range range;
  FieldValue value;
  const int64_t samples = reader.samples() <= kMostScanned ? reader.samples() : 0;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const int64_t label = raw_label(reader, sample, field, value);
    range.least = std::min(range.least, label);
    range.beyond = label >= classes ? std::min(range.beyond, label) : range.beyond;
  }
  return range;
}

Error too_many_classes(const Reader& reader, int64_t found, int64_t classes, const std::string& first,
                       const LabelPlaces& places) {
  const std::string count = format_with_underscores(found);
  Error error = content_error("XG0402",
                              {"label {} does not fit a head with {} classes{}", found - 1, classes,
                               first.empty() ? "" : fmt::format(": `{}` is the first class beyond them", first)},
                              {"give the head the {} classes of the data", count},
                              places.counted.valid() ? places.counted : places.binding);
  error.label = fmt::format("labels must be 0..{}", classes - 1);
  error.others.push_back(
      {places.source, fmt::format("{} samples, labels 0..{}", format_count(reader.samples()), found - 1)});
  return error;
}

bool counts_from_zero(const DataBinding& binding) {
  return std::ranges::all_of(binding.stages, [](const CallSpec& stage) {
    return stage.name == "as_index" && stage.args.integer("first", 0) == 0;
  });
}

}  // namespace

Status check_class_count(const Reader& reader, int field, const DataBinding& binding, const Transform& transform,
                         int64_t classes, bool trains, const LabelPlaces& places) {
  const Field& from = reader.fields()[static_cast<size_t>(field)];
  const auto name_of = [&](int64_t label) {
    const auto& texts = transform.class_names();
    return !texts.empty() ? texts[static_cast<size_t>(label)] : from.name == "label" ? reader.class_name(label) : "";
  };
  const int64_t most = std::max(transform.classes(), from.type.classes);
  if (most <= classes || (!trains && !name_of(0).empty())) {
    return {};
  }
  if (transform.classes() > classes) {
    const int64_t found = transform.classes();
    const std::string first = name_of(classes);
    Error error = too_many_classes(reader, found, classes, first, places);
    if (first.empty() && from.type.classes == classes + 1 && range_of(reader, field, classes).least >= 1) {
      error.help = from_one_help(classes);
    } else if (places.counted.valid()) {
      error.edits.push_back({places.counted, format_with_underscores(found)});
    }
    return error;
  }
  if (counts_from_zero(binding)) {
    const Range range = range_of(reader, field, classes);
    if (range.beyond < from.type.classes) {
      Error error = too_many_classes(reader, from.type.classes, classes, name_of(range.beyond), places);
      error.help = range.least >= 1 && from.type.classes == classes + 1
                       ? from_one_help(classes)
                       : fmt::format("give the head and `as_index` the {} classes of the data",
                                     format_with_underscores(from.type.classes));
      return error;
    }
  }
  return {};
}

bool count_from_one(int64_t samples, int64_t classes, const std::function<Result<int64_t>(int64_t sample)>& read) {
  const std::string one_too_high = check_label(static_cast<double>(classes), classes).error().message;
  bool found = false;
  for (int64_t sample = 0; sample < std::min(samples, kMostScanned); ++sample) {
    const Result<int64_t> label = read(sample);
    if (label.ok() && *label < 0) {
      continue;  // the sample has no label
    }
    if (label.ok() ? *label < 1 : label.error().code == "XG0402" && label.error().message != one_too_high) {
      return false;
    }
    found = found || (!label.ok() && label.error().message == one_too_high);
  }
  return found && samples <= kMostScanned;
}

void explain_label(Error& error, const std::string& name, int64_t classes, bool from_one, const LabelPlaces& places) {
  const bool too_high = error.help.empty();
  if (!too_high || !places.counted.valid()) {
    error.span = places.binding.valid() ? places.binding : places.source;
  } else {
    error.span = places.counted;
    error.others.push_back({places.source, fmt::format("{} says otherwise", name)});
  }
  if (from_one) {
    error.help = from_one_help(classes);
  } else if (too_high) {
    error.help = fmt::format("fix {}, or give the head more classes", name);
  }
}

}  // namespace xrun::runtime
