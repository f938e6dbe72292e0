// A row is filled by reading the fields of a sample and running the transforms of the inputs. Faults of labels are
// explained here, and not in the transform, since only this code has access to the other samples and to the number of
// classes of the head. sample_rows_open.cpp opens the source.
// Tests: tests/runtime/data/loader_test.cpp, tests/runtime/data/readers/reader_test.cpp
#include "runtime/data/sample_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/xxh128.h"
#include "graph/layouts/mixed_labels.h"
#include "runtime/data/augment/ignore.h"
#include "runtime/data/augment/label_faults.h"

namespace xrun::runtime {

bool is_broken_sample(const Error& error) { return error.code == "XG0412"; }

Status SampleRows::fill(int64_t sample, const DrawKey& key, AugmentScratch& scratch, const BatchView& batch,
                        int64_t row, std::span<RowLabel> labels) const {
  const bool weighs = !weights_.empty() && batch.wants(weigh_to_, row);
  for (const RowInput& input : inputs_) {
    if (!input.needed) {
      zero_input(input, batch, row);
    } else if (batch.wants(input.index, row) || (weighs && input.index == weigh_by_)) {
      std::byte* const to = batch.inputs[input.index] + row * input.transform.row_bytes();
      XRUN_TRY(fill_input(input, sample, key, scratch, to));
    } else if (mix_.mixes && input.transform.target().classes > 0 &&
               (batch.wants(input.partner, row) || batch.wants(mix_.weight, row))) {
      // Finds faults of this label now: `mix` may read it again, and its errors are reported for the partner.
      scratch.partner.resize(static_cast<size_t>(input.transform.row_bytes()));
      XRUN_TRY(fill_input(input, sample, key, scratch, scratch.partner.data()));
    }
  }
  if (weighs) {
    const int32_t label = reinterpret_cast<const int32_t*>(batch.inputs[weigh_by_])[row];
    reinterpret_cast<float*>(batch.inputs[weigh_to_])[row] = weight_of(label);
  }
  return labels.empty() ? Status() : count_labels(sample, scratch, labels);
}

float SampleRows::weight_of(int32_t label) const {
  return label < 0 || weights_.empty() ? 1 : weights_[static_cast<size_t>(label)];
}

Status SampleRows::count_labels(int64_t sample, AugmentScratch& scratch, std::span<RowLabel> labels) const {
  XRUN_DCHECK(labels.size() == partial_.size(), "a row has each partial label");
  for (size_t i = 0; i < partial_.size(); ++i) {
    const RowInput& input = *std::ranges::find(inputs_, partial_[i].input, &RowInput::name);
    scratch.labels.resize(static_cast<size_t>(partial_[i].positions));
    XRUN_TRY(fill_input(input, sample, {}, scratch, reinterpret_cast<std::byte*>(scratch.labels.data())));
    const auto has_label = [](int32_t label) { return label >= 0; };
    const bool is_weighed = input.index == weigh_by_ && partial_[i].positions == 1;
    labels[i] = {.labels = static_cast<int32_t>(std::ranges::count_if(scratch.labels, has_label)),
                 .weight = is_weighed ? weight_of(scratch.labels[0]) : 1};
  }
  return {};
}

Status SampleRows::read_input(const RowInput& input, int64_t sample, const DrawKey& key, AugmentScratch& scratch,
                              std::byte* to) const {
  XRUN_TRY(reader_->read(sample, input.field, scratch.source));
  scratch.end_part("read");
  Status done = input.transform.run(scratch, key, to);
  scratch.end_part("store");
  return done;
}

Status SampleRows::fill_input(const RowInput& input, int64_t sample, const DrawKey& key, AugmentScratch& scratch,
                              std::byte* to) const {
  Status done = read_input(input, sample, key, scratch, to);
  if (done.ok()) {
    return done;
  }
  Error error = std::move(done).error();
  const std::string name = reader_->sample_name(sample);
  if (error.code == "XG0402") {
    const int64_t classes = input.transform.target().classes;
    const bool from_one = error.help.empty() && input.is_label &&
                          count_from_one(samples(), classes, [&](int64_t other) -> Result<int64_t> {
                            int32_t label = 0;
                            XRUN_TRY(read_input(input, other, {}, scratch, reinterpret_cast<std::byte*>(&label)));
                            return int64_t{label};
                          });
    explain_label(error, name, classes, from_one, input.places);
  }
  error.message = fmt::format("{} of source `{}`: {}", name, name_, error.message);
  return error;
}

namespace {

// The value of a bool field of a sample; nullopt if the source has no such field.
Result<std::optional<int64_t>> read_flag(const Reader& reader, const std::string& source, std::string_view field,
                                         int64_t sample, FieldValue& value) {
  const int position = reader.find_field(field);
  if (position < 0 || reader.fields()[static_cast<size_t>(position)].type.dtype != DType::kBool) {
    return std::optional<int64_t>();
  }
  Status done = reader.read(sample, position, value);
  if (!done.ok()) {
    Error error = std::move(done).error();
    error.message = fmt::format("{} of source `{}`: {}", reader.sample_name(sample), source, error.message);
    return error;
  }
  XRUN_CHECK(value.bytes.size() == 1, "a bool is one byte");
  return std::optional<int64_t>(value.bytes[0] == std::byte{0} ? 0 : 1);
}

}  // namespace

Result<std::optional<int64_t>> SampleRows::label(std::string_view input, int64_t sample,
                                                 AugmentScratch& scratch) const {
  const auto found = std::ranges::find(inputs_, input, &RowInput::name);
  if (found == inputs_.end()) {
    return read_flag(*reader_, name_, input, sample, scratch.source);
  }
  if (!found->is_label) {
    return std::optional<int64_t>();
  }
  int32_t label = 0;
  Status done = fill_input(*found, sample, DrawKey{0, 0, static_cast<uint64_t>(sample), false}, scratch,
                           reinterpret_cast<std::byte*>(&label));
  if (!done.ok() && is_broken_sample(done.error())) {
    return std::optional<int64_t>();  // the label is missing
  }
  XRUN_TRY(done);
  return label < 0 ? std::optional<int64_t>() : std::optional<int64_t>(label);
}

Result<std::vector<int32_t>> SampleRows::labels_of(std::string_view input, StopFlag stop) const {
  const auto labels = std::ranges::find(inputs_, input, &RowInput::name);
  XRUN_CHECK(labels != inputs_.end(), "labels that no field fills");
  std::vector<int32_t> classes(static_cast<size_t>(samples()));
  AugmentScratch scratch;
  bool any = false;
  for (int64_t sample = 0; sample < samples(); ++sample) {
    XRUN_TRY(check_stop(stop));
    int32_t& label = classes[static_cast<size_t>(sample)];
    Status done = fill_input(*labels, sample, {}, scratch, reinterpret_cast<std::byte*>(&label));
    if (!done.ok() && (!is_broken_sample(done.error()) || (!any && sample + 1 == samples()))) {
      return std::move(done).error();
    }
    label = done.ok() ? label : -1;
    any = any || done.ok();
  }
  return classes;
}

void SampleRows::weigh(const Graph& graph, std::string_view labels, std::string_view to, std::vector<float> weights) {
  weigh_by_ = place_of(graph, labels);
  weigh_to_ = place_of(graph, to);
  mix_.weight = place_of(graph, partner_weight(labels));
  const bool reads = weigh_to_ < graph.inputs.size() ||
                     std::ranges::any_of(partial_, [](const PartialLabel& label) { return label.row_factor >= 0; });
  weights_ = reads ? std::move(weights) : std::vector<float>();
}

std::vector<Error> SampleRows::spare_classes() const {
  std::vector<Error> warnings;
  for (const RowInput& input : inputs_) {
    const int64_t head = input.transform.target().classes;
    if (!input.is_label || input.classes == 0 || input.classes >= head) {
      continue;
    }
    const LabelPlaces& places = input.places;
    Error warning =
        content_error("XG0419",
                      {"`{}`: the head has {}, but the source `{}` has {}, so {} of the head never {} as a label",
                       input.name, counted(head, "class"), name_, format_count(input.classes),
                       counted(head - input.classes, "class"), head - input.classes == 1 ? "occurs" : "occur"},
                      {"give the head the {} of the data; `--extend` adds classes to a trained model later",
                       counted(input.classes, "class")},
                      places.counted.valid() ? places.counted : places.binding);
    if (places.source.valid()) {
      warning.others.push_back({places.source, "this source"});
    }
    warnings.push_back(std::move(warning));
  }
  return warnings;
}

Decoding SampleRows::decoding() const {
  Decoding most;
  FieldValue value;
  for (const RowInput& input : inputs_) {
    if (!input.transform.decodes()) {
      continue;
    }
    for (const int64_t sample : looked_samples(samples())) {
      if (!reader_->read(sample, input.field, value).ok()) {
        continue;
      }
      const auto header = read_picture_header(value.bytes);
      const Bytes partner = input.transform.mixing() ? input.transform.row_bytes() : 0;
      const Bytes bytes = header.ok() ? input.transform.decode_bytes(*header) + partner : 0;
      if (bytes > most.bytes) {
        most = {bytes, fmt::format("{} of {} x {}", reader_->sample_name(sample), header->width, header->height)};
      }
    }
  }
  return most;
}

std::vector<Error> SampleRows::look_at(const BatchView& batch, int64_t rows) const {
  constexpr double kMostMean = 20;
  std::vector<Error> warnings;
  for (const RowInput& input : inputs_) {
    const std::byte* from = input.index < batch.inputs.size() ? batch.inputs[input.index] : nullptr;
    if (from == nullptr) {
      continue;
    }
    const RowRange read = batch.rows.empty() ? RowRange{0, rows} : batch.rows[input.index];
    const double mean = input.transform.mean(from + read.begin * input.transform.row_bytes(), read.end - read.begin);
    if (std::abs(mean) > kMostMean) {
      warnings.push_back(
          content_error("XG0816",
                        {"`{}` has the mean {:.4g} in the first batch, but networks learn from values around 0: put "
                         "`scale(1 / 255)` or `normalize(mean=.., std=..)` into its binding",
                         input.name, mean},
                        ""));
    }
  }
  return warnings;
}

std::vector<Error> SampleRows::warnings() const {
  std::vector<Error> warnings = reader_->warnings();
  for (Error& warning : warnings) {
    warning.message = fmt::format("source `{}`: {}", name_, warning.message);
    warning.span = span_;
  }
  for (const RowInput& input : inputs_) {
    if (name_ == "train" && !input.transform.unmatched().empty()) {
      Error warning = nothing_to_ignore(input.name, input.transform.unmatched());
      warning.span = span_;
      warnings.push_back(std::move(warning));
    }
  }
  return warnings;
}

std::optional<Error> SampleRows::broken_cells() const {
  if (reader_->columns().empty()) {
    return std::nullopt;
  }
  AugmentScratch scratch;
  int64_t broken = 0;
  Error first;
  for (int64_t sample = 0; sample < samples(); ++sample) {
    for (const RowInput& input : inputs_) {
      Status done = reader_->read(sample, input.field, scratch.source);
      done = done.ok() ? input.transform.check_cells(scratch) : std::move(done);
      if (done.ok()) {
        continue;
      }
      if (broken++ == 0) {
        first = std::move(done).error();
        first.message = fmt::format("{}: {}", reader_->sample_name(sample), first.message);
      }
      break;
    }
  }
  if (broken == 0) {
    return std::nullopt;
  }
  return content_error("XG0412",
                       {"source `{}`: {} of {} rows {} a cell that cannot be used; the first: {}", name_,
                        format_count(broken), format_count(samples()), broken == 1 ? "has" : "have", first.message},
                       first.help, span_);
}

std::string SampleRows::contents() const {
  Xxh128 digest;
  AugmentScratch scratch;
  std::vector<std::byte> row;
  for (const int64_t sample : looked_samples(samples())) {
    for (const RowInput& input : inputs_) {
      row.assign(static_cast<size_t>(input.transform.row_bytes()), std::byte{});
      const DrawKey key{.sample = static_cast<uint64_t>(sample), .training = false};
      const Status read = fill_input(input, sample, key, scratch, row.data());
      digest.add(read.ok() ? std::as_bytes(std::span(row)) : std::as_bytes(std::span(read.error().code)));
    }
  }
  return digest.hex();
}

void SampleRows::zero_input(const RowInput& input, const BatchView& batch, int64_t row) const {
  if (input.index < batch.inputs.size() && batch.inputs[input.index] != nullptr) {
    const auto bytes = static_cast<size_t>(input.transform.row_bytes());
    std::memset(batch.inputs[input.index] + static_cast<size_t>(row) * bytes, 0, bytes);
  }
}

void SampleRows::zero(const BatchView& batch, int64_t row) const {
  for (const RowInput& input : inputs_) {
    zero_input(input, batch, row);
  }
}

}  // namespace xrun::runtime
