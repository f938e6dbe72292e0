#include "runtime/data/readers/npy/npy.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "runtime/data/readers/label_numbers.h"
#include "runtime/data/readers/npy/npy_arrays.h"
#include "runtime/data/readers/npy/npy_labels.h"
#include "runtime/data/readers/npy/npy_values.h"

namespace xrun::runtime {
namespace {

class NpyReader final : public Reader {
 public:
  struct Options {
    std::string layout;
    int64_t first = 0;
    int64_t samples = 0;
    bool told = false;  // whether a warning reports classes without samples
  };

  NpyReader(std::vector<NpyFile> files, NpyLabels labels, int64_t classes, bool has_labels, const Options& options)
      : files_(std::move(files)),
        labels_(std::move(labels)),
        classes_(classes),
        options_(options),
        form_(NpyForm::of(files_[0].header(), options.layout)),
        gap_(options.told && labels_.names.empty() ? count_label_gap(labels_.numbers, classes) : 0) {
    int64_t end = 0;
    for (const NpyFile& file : files_) {
      ends_.push_back(end += file.samples());
    }
    TensorType type{.dtype = form_.dtype, .dims = form_.shape};
    type.dims.insert(type.dims.begin(), kBatch);
    fields_ = {{"value", std::move(type)}};
    if (has_labels) {
      fields_.push_back({"label", {.dtype = DType::kI32, .dims = {kBatch}, .classes = classes}});
    }
  }

  int64_t samples() const override { return options_.samples; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return classes_; }
  Status read(int64_t sample, int field, FieldValue& out) const override {
    if (field == 1) {
      return read_label(sample, out);
    }
    const auto [file, row] = place_of(sample);
    return read_npy_value(*file, row, form_, out);
  }
  std::string class_name(int64_t label) const override {
    return static_cast<size_t>(label) < labels_.names.size() ? labels_.names[static_cast<size_t>(label)] : "";
  }
  std::string sample_name(int64_t sample) const override {
    const auto [file, row] = place_of(sample);
    return fmt::format("sample {} of {}", row, file->name());
  }
  std::string describe() const override {
    const NpyHeader& header = files_[0].header();
    const std::string content = npy_content(header);
    return fmt::format("npy: {} of {} [{}]{}{}", counted(samples(), "sample"), content.substr(0, content.find(' ')),
                       fmt::join(form_.shape, ", "),
                       header.is_fortran ? " in Fortran's order, which is slow to read" : "",
                       fields_.size() > 1 ? ", " + counted(classes_, "class") : "");
  }
  Bytes memory() const override {
    Bytes sum = labels_.bytes();
    for (const NpyFile& file : files_) {
      sum += file.held();
    }
    return sum;
  }
  std::vector<Error> warnings() const override { return gap_warnings(classes_, gap_); }

 private:
  struct Place {
    const NpyFile* file;
    int64_t row;
  };
  Place place_of(int64_t sample) const {
    const int64_t at = options_.first + sample;
    const auto i = static_cast<size_t>(std::ranges::upper_bound(ends_, at) - ends_.begin());
    return {&files_[i], i == 0 ? at : at - ends_[i - 1]};
  }

  Status read_label(int64_t sample, FieldValue& out) const {
    const int32_t label = labels_.numbers[static_cast<size_t>(sample)];
    if (label == NpyLabels::kMissing) {
      return content_error("XG0412", "its label is a missing value",
                           "write the label of the sample, remove the sample, or raise `max_bad`");
    }
    out.set_integer(DType::kI32, label);
    return {};
  }

  std::vector<NpyFile> files_;
  std::vector<int64_t> ends_;  // number of samples in all files up to and with this one
  NpyLabels labels_;
  int64_t classes_;
  Options options_;
  NpyForm form_;
  int64_t gap_;
  std::vector<Field> fields_;
};

// The samples of `total` that `rows` selects, from the first to the one after the last.
Result<std::array<int64_t, 2>> rows_of(const Attrs& args, int64_t total) {
  if (!args.has("rows")) {
    return std::array<int64_t, 2>{0, total};
  }
  const auto& rows = args.integers("rows");
  if (rows[1] > total) {
    return content_error("XG0413", {"`rows` is {}..{}, but the arrays have {} samples", rows[0], rows[1], total},
                         {"keep to 0..{}: samples are counted from 0, over all files", total});
  }
  return std::array<int64_t, 2>{rows[0], rows[1]};
}

// The parts of the labels that belong to the samples [first, last).
std::vector<NpyPart> parts_of(const std::vector<NpyArrays>& arrays, int64_t first, int64_t last) {
  std::vector<NpyPart> parts;
  int64_t start = 0;
  for (const NpyArrays& one : arrays) {
    const int64_t count = one.values.samples();
    const int64_t begin = std::clamp(first - start, int64_t{0}, count);
    const int64_t end = std::clamp(last - start, int64_t{0}, count);
    if (one.labels && end > begin) {
      parts.push_back({&*one.labels, begin, end - begin});
    }
    start += count;
  }
  return parts;
}

Result<std::unique_ptr<Reader>> open_with(const SourceSpec& spec, NpyFile::Extent extent, StopFlag stop) {
  const Attrs& args = spec.reader.args;
  XRUN_TRY(data_registry().find_reader("npy")->fields(args));
  XRUN_ASSIGN(auto arrays, open_npy_arrays(spec, extent, stop));
  int64_t total = 0;
  for (const NpyArrays& one : arrays) {
    XRUN_TRY(check_npy_values(one.values, args.text("layout")));
    XRUN_TRY(check_equal_npy(arrays[0].values, one.values));
    total += one.values.samples();
  }
  XRUN_ASSIGN(const auto rows, rows_of(args, total));
  NpyLabels labels;
  int64_t classes = 0;
  const bool has_labels = arrays[0].labels.has_value();
  if (has_labels) {
    const auto parts = parts_of(arrays, rows[0], rows[1]);
    if (!parts.empty()) {
      XRUN_ASSIGN(labels, read_npy_labels(parts, stop));
    }
    const std::string path = arrays[0].labels->name();
    XRUN_ASSIGN(classes, count_label_classes(args, labels.numbers, path));
    if (!labels.names.empty() && classes != std::ssize(labels.names)) {
      return content_error("XG0413",
                           {"`classes` is {}, but {} has {}", classes, path, counted(std::ssize(labels.names), "text")},
                           "leave `classes` out: each text is a class");
    }
  }
  const NpyReader::Options options{.layout = args.text("layout"),
                                   .first = rows[0],
                                   .samples = rows[1] - rows[0],
                                   .told = has_labels && spec.name == "train" && !args.has("classes")};
  std::vector<NpyFile> files;
  for (NpyArrays& one : arrays) {
    files.push_back(std::move(one.values));
  }
  return std::unique_ptr<Reader>(
      std::make_unique<NpyReader>(std::move(files), std::move(labels), classes, has_labels, options));
}

}  // namespace

Result<std::unique_ptr<Reader>> open_npy(const SourceSpec& spec, StopFlag stop) {
  return open_with(spec, NpyFile::Extent::kWhole, stop);
}

Result<std::unique_ptr<Reader>> open_npy_header(const SourceSpec& spec, StopFlag stop) {
  return open_with(spec, NpyFile::Extent::kHeader, stop);
}

}  // namespace xrun::runtime
