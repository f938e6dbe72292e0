// Compiling a binding takes its stages in order and tracks the type of the value: each stage infers the type of its
// result, so that a stage or an input that does not fit is found before a sample is read. If no stage selects columns
// of a table, a stage that reads all of them is added first. Running the binding applies the steps to one sample. The
// result is in one of four forms (a picture, a row, a number, or the unchanged field), and it is stored in the form
// that the input's type asks for.
#include "runtime/data/augment/transform.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "graph/base/errors.h"
#include "ops/simd/simd.h"
#include "runtime/data/augment/column_choice.h"
#include "runtime/data/augment/decode_stage.h"
#include "runtime/data/augment/ignore.h"
#include "runtime/data/augment/picture_stages.h"

namespace xrun::runtime {
namespace {

bool is_float(DType dtype) { return is_computed(dtype) || dtype == DType::kF64; }

// Whether samples of this type can fill the input. A size that is not known yet is checked when samples are read.
bool fits(const TensorType& sample, const TensorType& target) {
  if (sample.rank() != target.rank()) {
    return false;
  }
  for (size_t i = 1; i < sample.dims.size(); ++i) {
    if (sample.dims[i] != 0 && sample.dims[i] != target.dims[i]) {
      return false;
    }
  }
  if (target.classes > 0) {
    return !is_float(sample.dtype) && sample.dtype != DType::kU8;
  }
  return true;
}

// Whether the stage decodes only the part of an encoded picture that it needs. Padding is not a part of a picture.
bool decodes_parts(const AugmentStep& stage) {
  const bool crops_inside = (stage.run == run_random_crop || stage.run == run_center_crop) && stage.extra == 0;
  return stage.run == run_resize || stage.run == run_resized_crop || crops_inside;
}

Error at(Error error, const Span& span) {
  error.span = span;
  return error;
}

// Checks that the result of the last stage is what the input takes.
Status check_result(const DataBinding& binding, const Field& field, const Field& value, const TensorType& target) {
  if (value.encoded) {
    return at(content_error("XG0409",
                            {"`{}` is an encoded file, but `{}` is {}", field.name, binding.target, to_text(target)},
                            "put `decode` into the binding"),
              binding.span);
  }
  if (!fits(value.type, target)) {
    return at(content_error("XG0404",
                            {"samples of `{}` are {}, but `{}` is {}", field.name, to_text(value.type), binding.target,
                             to_text(target)},
                            "change the input of the model, or add stages such as `resize` or `as_index`"),
              binding.span);
  }
  if (!is_float(target.dtype) && target.rank() != 1 && (target.rank() != 2 || value.type.classes == 0)) {
    return at(content_error(
                  "XG0404",
                  {"`{}` is {}: pictures and rows feed inputs of f32, bf16 or f16", binding.target, to_text(target)},
                  "make the input f32, or turn the numbers of a row into classes with `as_index`"),
              binding.span);
  }
  return {};
}

}  // namespace

namespace {

// The stages of a binding. If no stage selects columns of a table, a stage that reads and checks all columns is added
// first.
std::vector<CallSpec> stages_of(const DataBinding& binding, std::span<const CsvColumn> columns) {
  std::vector<CallSpec> stages = binding.stages;
  const bool selects = !stages.empty() && selects_columns(stages[0]);
  if (!columns.empty() && !selects) {
    stages.insert(stages.begin(), {"columns", {{"range", std::vector<int64_t>{0, std::ssize(columns)}}}, binding.span});
  }
  return stages;
}

}  // namespace

// Checks a stage against the stages before it.
Status Transform::check_stage(const CallSpec& call) const {
  if (call.name == "as_index" && !texts_.empty() && call.args.has("first")) {
    return at(content_error("XG0409", "the labels are texts, which have no first number", "leave `first` out"),
              call.span);
  }
  if ((call.name == "fill_missing" || call.name == "standardize") && !texts_.empty()) {
    return at(content_error("XG0409", {"`{}` needs numbers, but the column holds texts", call.name},
                            "for texts that stand for no label write `ignore(missing=true)`"),
              call.span);
  }
  if (call.name == "standardize" && standardize_ >= 0) {
    return at(content_error("XG0409", "a binding standardizes twice", "leave one `standardize` out"), call.span);
  }
  return {};
}

Result<Transform> Transform::compile(const DataBinding& binding, const Field& field, const TensorType& target,
                                     std::span<const CsvColumn> columns, const std::vector<std::string>& names) {
  Transform made;
  made.target_ = target;
  made.row_bytes_ = target.row_elements() * size_of(target.dtype);
  made.decodes_ = field.encoded;
  made.mixing_ = Mixing::of(binding, target);
  Field value = field;
  const std::vector<CallSpec> stages = stages_of(binding, columns);
  const size_t added = stages.size() - binding.stages.size();
  for (size_t i = 0; i < stages.size(); ++i) {
    const CallSpec& call = stages[i];
    ColumnChoice chosen;
    if (selects_columns(call)) {
      auto found = choose_columns(call, target, columns);
      if (!found.ok()) {
        return at(std::move(found).error(), call.span);
      }
      chosen = std::move(found).value();
      made.texts_ = std::move(chosen.texts);
    }
    XRUN_TRY(made.check_stage(call));
    const AugmentDef* def = data_registry().find_augment(call.name);
    XRUN_CHECK(def != nullptr, "a stage that the checker let pass: " + call.name);
    auto type = def->infer(value, call.args);
    if (!type.ok()) {
      return at(std::move(type).error(), call.span);
    }
    const bool ignores = call.name == "ignore";
    if (ignores && columns.empty() && !made.is_partial_) {
      if (names.empty() && ignores_texts(call)) {
        return at(content_error("XG0409", {"the classes of `{}` are numbers, but `ignore` names texts", field.name},
                                "name the numbers that stand for no label: ignore(255)"),
                  call.span);
      }
      made.texts_ = names;
    }
    made.is_partial_ = made.is_partial_ || ignores;
    AugmentStep step = ignores ? ignore_step(call, made.texts_, made.unmatched_) : augment_step(call);
    if (step.run == nullptr) {
      return at(content_error("XG0410", {"the stage `{}` is not available yet", call.name}, "leave it out for now"),
                call.span);
    }
    step.name = def->name;
    step.method.is_bytes = value.type.dtype == DType::kU8;
    step.stage = i < added ? 0 : i - added;  // key of the stage's random draws; the added stage draws no numbers
    step.columns = std::move(chosen.positions);
    step.names = std::move(chosen.names);
    step.missing = std::ranges::any_of(binding.stages, [](const CallSpec& stage) {
      return stage.name == "fill_missing" || (stage.name == "ignore" && ignores_missing(stage));
    });
    if (call.name == "standardize") {
      made.standardize_ = std::ssize(made.steps_);
    }
    made.steps_.push_back(std::move(step));
    value.type = std::move(type).value();
    value.encoded = false;
    value.rescaled = value.rescaled || def->rescales;
  }
  XRUN_TRY(check_result(binding, field, value, target));
  if (made.steps_.size() > 1 && made.steps_[0].run == run_decode && made.steps_[0].height == 0) {
    made.steps_[0].defers = decodes_parts(made.steps_[1]);
  }
  made.classes_ = made.texts_.empty() ? value.type.classes : std::ssize(made.texts_);
  return made;
}

Result<std::span<const double>> Transform::before_standardizing(AugmentScratch& scratch) const {
  scratch.form = AugmentScratch::kSource;
  for (const AugmentStep& step : std::span(steps_).first(static_cast<size_t>(standardize_))) {
    XRUN_TRY(step.run(step, scratch, DrawKey{.training = false}));
  }
  load_row(scratch);
  return std::span<const double>(scratch.row);
}

void Transform::standardize_by(std::vector<double> means, std::vector<double> deviations) {
  AugmentStep& step = steps_[static_cast<size_t>(standardize_)];
  step.values = std::move(means);
  step.deviations = std::move(deviations);
}

bool Transform::hashes_ngrams() const {
  return std::ranges::any_of(steps_, [](const AugmentStep& step) { return step.run == run_ngrams; });
}

std::string Transform::column_label(size_t i) const {
  const AugmentStep& first = steps_[0];
  return i < first.names.size()     ? fmt::format("`{}`", first.names[i])
         : i < first.columns.size() ? fmt::format("{}", first.columns[i])
                                    : fmt::format("{}", i);
}

Status Transform::check_cells(AugmentScratch& scratch) const {
  scratch.form = AugmentScratch::kSource;
  return steps_.empty() || steps_[0].columns.empty() ? Status() : steps_[0].run(steps_[0], scratch, DrawKey());
}

namespace {

template <typename T, typename Convert>
void store_picture(const Picture& picture, std::byte* out, Convert convert) {
  const int channels = picture.channels();
  T* to = reinterpret_cast<T*>(out);
  for (int y = 0; y < picture.height(); ++y, to += picture.width() * channels) {
    for (int c = 0; c < channels; ++c) {
      const float* row = picture.row(c, y);
      for (int x = 0; x < picture.width(); ++x) {
        to[x * channels + c] = convert(row[x]);
      }
    }
  }
}

}  // namespace

Bytes Transform::decode_bytes(const PictureHeader& header) const {
  if (!decodes_) {
    return 0;
  }
  const auto channels = static_cast<int>(steps_[0].extra);
  const Bytes decoded = header.held + (header.height + 1) * header.width * channels;
  const AugmentStep& sizing = steps_[0].defers ? steps_[1] : steps_[0];
  const auto [height, width] = size_after(sizing, header.height, header.width);
  const bool resized = header.height != height || header.width != width;
  // The memory of the working picture, and of the second picture for stages that cannot work in place.
  return decoded + 2 * Picture::bytes(channels, height, width) +
         (resized ? Resizer::bytes(channels, header.height, header.width, height, width) : 0);
}

double Transform::mean(const std::byte* rows, int64_t count) const {
  const int64_t elements = target_.row_elements() * count;
  if (!is_float(target_.dtype) || target_.rank() < 2 || elements == 0) {
    return 0;
  }
  double sum = 0;
  for (int64_t i = 0; i < elements; ++i) {
    if (target_.dtype == DType::kF32) {
      sum += static_cast<double>(reinterpret_cast<const float*>(rows)[i]);
    } else if (target_.dtype == DType::kBF16) {
      sum += static_cast<double>(ops::to_float(reinterpret_cast<const ops::Bf16*>(rows)[i]));
    } else if (target_.dtype == DType::kF16) {
      sum += static_cast<double>(ops::to_float(reinterpret_cast<const ops::Half*>(rows)[i]));
    } else {
      sum += reinterpret_cast<const double*>(rows)[i];
    }
  }
  return sum / static_cast<double>(elements);
}

// Writes the working row of numbers, as i32 classes or f64.
Status Transform::store_row(AugmentScratch& scratch, std::byte* out) const {
  load_row(scratch);
  if (std::ssize(scratch.row) != target_.row_elements()) {
    return content_error("XG0404", {"a row of {} numbers does not fit {}", scratch.row.size(), to_text(target_)},
                         "take as many columns as the input has");
  }
  if (target_.dtype == DType::kF64) {
    std::memcpy(out, scratch.row.data(), scratch.row.size() * sizeof(double));
    return {};
  }
  for (const double number : scratch.row) {
    const bool has_label = number != kNoLabel;
    XRUN_TRY(has_label ? check_label(number, target_.classes) : Status());
    const int32_t whole = has_label ? static_cast<int32_t>(number) : -1;
    std::memcpy(out, &whole, sizeof whole);
    out += sizeof whole;
  }
  return {};
}

Status Transform::run(AugmentScratch& scratch, const DrawKey& key, std::byte* out) const {
  scratch.form = AugmentScratch::kSource;
  for (const AugmentStep& step : steps_) {
    XRUN_TRY(step.run(step, scratch, key));
    scratch.end_part(step.name);
  }
  const bool is_row = scratch.form == AugmentScratch::kRow || scratch.form == AugmentScratch::kNumber ||
                      (scratch.form == AugmentScratch::kSource && scratch.source.rank < 2);
  if (target_.rank() <= 2 &&
      (target_.dtype == DType::kF64 ? is_row : !is_float(target_.dtype) && target_.rank() == 2)) {
    return store_row(scratch, out);
  }
  if (!is_float(target_.dtype)) {
    double number = number_of(scratch);
    const bool has_label = number != kNoLabel;
    if (has_label && !numbers_.empty()) {
      XRUN_TRY(check_label(number, std::ssize(numbers_)));
      number = static_cast<double>(numbers_[static_cast<size_t>(number)]);
    }
    XRUN_TRY(has_label ? check_label(number, target_.classes) : Status());
    number = has_label ? number : -1;
    if (target_.dtype == DType::kI64) {
      const auto whole = static_cast<int64_t>(number);
      std::memcpy(out, &whole, sizeof whole);
    } else {
      const auto whole = static_cast<int32_t>(number);
      std::memcpy(out, &whole, sizeof whole);
    }
    return {};
  }
  load_picture(scratch);
  const Picture& picture = scratch.picture;
  const bool same = target_.rank() != 4 || (picture.channels() == target_.dims[1] &&
                                            picture.height() == target_.dims[2] && picture.width() == target_.dims[3]);
  if (!same || picture.elements() != target_.row_elements()) {
    return content_error("XG0404",
                         {"a sample of {} x {} x {} does not fit {}", picture.channels(), picture.height(),
                          picture.width(), to_text(target_)},
                         "add `resize` to the binding");
  }
  if (target_.dtype == DType::kBF16) {
    store_picture<ops::Bf16>(picture, out, [](float x) { return ops::to_bf16(x); });
  } else if (target_.dtype == DType::kF16) {
    store_picture<ops::Half>(picture, out, [](float x) { return ops::to_f16(x); });
  } else if (picture.channels() == 1 && target_.dtype == DType::kF32) {
    for (int y = 0; y < picture.height(); ++y) {
      std::memcpy(out + static_cast<size_t>(y) * static_cast<size_t>(picture.width()) * 4, picture.row(0, y),
                  static_cast<size_t>(picture.width()) * 4);
    }
  } else if (target_.dtype == DType::kF32) {
    store_picture<float>(picture, out, [](float x) { return x; });
  } else {
    store_picture<double>(picture, out, [](float x) { return static_cast<double>(x); });
  }
  return {};
}

}  // namespace xrun::runtime
