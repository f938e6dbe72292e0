// Compiling a binding takes its stages in order and tracks the type of the value: each stage infers the type of its
// result, so that a stage or an input that does not fit is found before a sample is read. If no stage selects columns
// of a table, a stage that reads all of them is added first. Running the binding applies the steps to one sample. The
// result is in one of four forms (a picture, a row, a number, or the unchanged field), and it is stored in the form
// that the input's type asks for.
#include "runtime/data/augment/transform.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/base/nearest.h"
#include "ops/simd/simd.h"
#include "runtime/data/augment/ignore.h"

namespace xrun::runtime {
namespace {

bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF64; }

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

Error at(Error error, const Span& span) {
  error.span = span;
  return error;
}

}  // namespace

namespace {

// Returns the position of the column that a stage selects by number or by its name in the header.
Result<int64_t> find_column(const AttrValue& index, std::span<const CsvColumn> columns) {
  if (const auto* position = std::get_if<int64_t>(&index)) {
    return *position;
  }
  const auto& name = std::get<std::string>(index);
  const auto found = std::ranges::find(columns, name, &CsvColumn::name);
  if (found != columns.end()) {
    return found - columns.begin();
  }
  std::vector<std::string> names;
  std::ranges::transform(columns, std::back_inserter(names), &CsvColumn::name);
  std::erase(names, "");
  return content_error(
      "XG0413", {"the table has no column `{}`", name},
      names.empty() ? "say that its first line holds names: csv(..., header=true)" : nearest_names(name, names));
}

// Resolves the columns in the first stage of a binding to a table: a column becomes a position, and the texts of the
// column are stored in `texts`.
Result<CallSpec> resolve_columns(CallSpec call, const TensorType& target, std::span<const CsvColumn> columns,
                                 std::vector<std::string>& texts) {
  int64_t begin = 0;
  int64_t end = 0;
  if (call.name == "column") {
    XRUN_ASSIGN(begin, find_column(*call.args.find("index"), columns));
    call.args.set("index", begin);
    end = begin + 1;
  } else if (call.name == "columns") {
    begin = call.args.integers("range")[0];
    end = call.args.integers("range")[1];
  }
  for (int64_t i = begin; i < std::min(end, std::ssize(columns)); ++i) {
    const CsvColumn& column = columns[static_cast<size_t>(i)];
    if (column.fault.empty()) {
      continue;
    }
    if (call.name == "columns" || is_float(target.dtype)) {
      return content_error("XG0412", column.fault, column.help);
    }
    texts = column.texts;
  }
  return call;
}

// The stages of a binding. If no stage selects columns of a table, a stage that reads and checks all columns is added
// first.
std::vector<CallSpec> stages_of(const DataBinding& binding, std::span<const CsvColumn> columns) {
  std::vector<CallSpec> stages = binding.stages;
  const bool selects = !stages.empty() && (stages[0].name == "column" || stages[0].name == "columns");
  if (!columns.empty() && !selects) {
    stages.insert(stages.begin(), {"columns", {{"range", std::vector<int64_t>{0, std::ssize(columns)}}}, binding.span});
  }
  return stages;
}

// The names of the columns that a stage reads.
std::vector<std::string> names_of(const CallSpec& call, std::span<const CsvColumn> columns) {
  const bool one = call.name == "column";
  const int64_t begin = one ? call.args.integer("index") : call.args.integers("range")[0];
  const int64_t end = std::min(one ? begin + 1 : call.args.integers("range")[1], std::ssize(columns));
  std::vector<std::string> names;
  for (int64_t i = begin; i < end && !columns[static_cast<size_t>(i)].name.empty(); ++i) {
    names.push_back(columns[static_cast<size_t>(i)].name);
  }
  return names;
}

}  // namespace

Result<Transform> Transform::compile(const DataBinding& binding, const Field& field, const TensorType& target,
                                     std::span<const CsvColumn> columns, const std::vector<std::string>& names) {
  Transform made;
  made.target_ = target;
  made.row_bytes_ = target.row_elements() * size_of(target.dtype);
  made.decodes_ = field.encoded;
  Field value = field;
  const std::vector<CallSpec> stages = stages_of(binding, columns);
  const size_t added = stages.size() - binding.stages.size();
  for (size_t i = 0; i < stages.size(); ++i) {
    CallSpec call = stages[i];
    if (i == 0 && !columns.empty()) {
      auto resolved = resolve_columns(call, target, columns, made.texts_);
      if (!resolved.ok()) {
        return at(std::move(resolved).error(), call.span);
      }
      call = std::move(resolved).value();
    }
    if (call.name == "as_index" && !made.texts_.empty() && call.args.has("first")) {
      return at(content_error("XG0409", "the labels are texts, which have no first number", "leave `first` out"),
                call.span);
    }
    const AugmentDef* def = data_registry().find_augment(call.name);
    XRUN_CHECK(def != nullptr, "a stage that the checker let pass: " + call.name);
    auto type = def->infer(value, stages[i].args);
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
    step.stage = i < added ? 0 : i - added;  // key of the stage's random draws; the added stage draws no numbers
    if (i == 0 && !columns.empty()) {
      step.names = names_of(call, columns);
    }
    step.missing = std::ranges::any_of(
        binding.stages, [](const CallSpec& stage) { return stage.name == "ignore" && ignores_missing(stage); });
    made.steps_.push_back(std::move(step));
    value.type = std::move(type).value();
    value.encoded = false;
    value.rescaled = value.rescaled || def->rescales;
  }
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
    return at(content_error("XG0404",
                            {"`{}` is {}: pictures and rows feed f32 or bf16 inputs", binding.target, to_text(target)},
                            "make the input f32, or turn the numbers of a row into classes with `as_index`"),
              binding.span);
  }
  made.classes_ = made.texts_.empty() ? value.type.classes : std::ssize(made.texts_);
  return made;
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
  const AugmentStep& decode = steps_[0];
  const auto channels = static_cast<int>(decode.extra);
  const Bytes decoded = header.held + header.height * header.width * channels;
  const bool resized = decode.size > 0 && (header.height != decode.size || header.width != decode.size);
  // The memory of the working picture, and of the second picture for stages that cannot work in place.
  return resized ? decoded + Resizer::bytes(header.height, header.width, decode.size) +
                       2 * Picture::bytes(channels, decode.size, decode.size)
                 : decoded + 2 * Picture::bytes(channels, header.height, header.width);
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
