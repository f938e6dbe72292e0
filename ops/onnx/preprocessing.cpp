// Decides what an exported file takes in place of a model's input, and which stages become its nodes. The nodes are in
// stages.cpp.
// Tests: tests/runtime/cli/commands/export_preprocess_test.cpp
#include "ops/onnx/preprocessing.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "graph/base/errors.h"
#include "graph/settings/pair_fields.h"
#include "graph/settings/reader_def.h"

namespace xrun::ops {
namespace {

// Stages that an evaluation has but ONNX lacks, each with the reason.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kRefused{
    {{"as_index", "it rejects numbers that are not classes, and no operator of ONNX can do this"},
     {"as_class", "it numbers texts, which are not in the file"},
     {"ignore", "it marks missing labels, which are used only in training"},
     {"ngrams", "it hashes the bytes of texts, and no operator of ONNX can do this"}}};

bool has_any_side(const TensorType& type) {
  return type.rank() == 4 && (type.dims[2] == kAnySide || type.dims[3] == kAnySide);
}

bool changes_sides(const CallSpec& stage) {
  constexpr std::array<std::string_view, 4> kNames{"resize", "random_crop", "center_crop", "random_resized_crop"};
  return std::ranges::find(kNames, stage.name) != kNames.end();
}

bool is_bicubic(const CallSpec& stage) {
  return stage.name == "resize" && stage.args.has("filter") && stage.args.text("filter") == "bicubic";
}

struct BoundField {
  Field field;
  std::string_view reader;
};

// The field that the binding reads, of the source `train` or else of the first source that has it.
Result<BoundField> field_of(const DataSpec& data, const DataBinding& binding) {
  std::vector<const SourceSpec*> sources;
  for (const SourceSpec& source : data.sources) {
    sources.insert(source.name == "train" ? sources.begin() : sources.end(), &source);
  }
  for (const SourceSpec* const source : sources) {
    const ReaderDef& reader = *data_registry().find_reader(source->reader.name);
    XRUN_ASSIGN(const std::vector<Field> fields, reader.fields(source->reader.args));
    if (const int found = bound_field(fields, binding); found >= 0) {
      return BoundField{fields[static_cast<size_t>(found)], reader.name};
    }
  }
  return content_error("XG0930",
                       {"no source of the file gives a field `{}` for the input `{}`", binding.field, binding.target},
                       "bind the input to a field, or export without --preprocess", binding.span);
}

Error refused(const CallSpec& stage, const std::string& input, std::string_view why) {
  return content_error("XG0930", {"the stage `{}` of `{}` cannot be exported: {}", stage.name, input, why},
                       {"export without --preprocess, and give the network what the stages make of `{}`", input},
                       stage.span);
}

// Adds a stage, or changes the field that the file takes.
Status add_stage(const CallSpec& stage, const BoundField& bound, OnnxPreprocessing& to) {
  const AugmentDef& def = *data_registry().find_augment(stage.name);
  if (def.only_training) {
    to.stages.push_back(stage);  // pixels after it may be f32, so a bicubic `resize` keeps its overshoot
    return {};
  }
  const auto why = std::ranges::find(kRefused, stage.name, &std::pair<std::string_view, std::string_view>::first);
  if (why != kRefused.end()) {
    return refused(stage, to.input, why->second);
  }
  if (is_bicubic(stage) && bound.reader == "npy") {
    return refused(stage, to.input, "its result depends on whether the arrays are bytes, which their files decide");
  }
  if (stage.name == "decode") {
    to.field.type = TensorType{DType::kU8, {kBatch, stage.args.integer("channels", 3), kAnySide, kAnySide}};
    to.field.encoded = false;
    if (const AttrValue* size = stage.args.find("size")) {
      to.stages.push_back({.name = "resize", .args = {{"size", *size}}, .span = stage.span});
    }
    return {};
  }
  if (stage.name == "columns" || stage.name == "column") {
    XRUN_ASSIGN(to.field.type, def.infer(to.field, stage.args));
    to.field.type.dtype = DType::kF64;
    return {};
  }
  to.stages.push_back(stage);
  return {};
}

}  // namespace

Result<OnnxPreprocessing> preprocessing_of(const DataSpec& data, const NamedValue& input, const TensorType& target,
                                           const ColumnScales& scales) {
  const auto known = std::ranges::find(data.bindings, input.name, &DataBinding::target);
  const DataBinding binding = known != data.bindings.end()
                                  ? *known
                                  : DataBinding{.target = input.name, .field = input.name, .stages = {}, .span = {}};
  XRUN_ASSIGN(const BoundField bound, field_of(data, binding));
  OnnxPreprocessing made{.input = input.name, .field = bound.field};
  for (const CallSpec& stage : binding.stages) {
    XRUN_TRY(add_stage(stage, bound, made));
  }
  // No stage of a file changes the number of channels or columns, and without a stage that changes sides they are those
  // of the input.
  TensorType& type = made.field.type;
  const bool keeps_sides = std::ranges::none_of(made.stages, changes_sides);
  for (size_t i = 1; i < type.dims.size() && type.rank() == target.rank(); ++i) {
    if (type.dims[i] == 0 && (i == 1 || keeps_sides)) {
      type.dims[i] = target.dims[i];
    }
  }
  if (has_any_side(type)) {
    type.dims[2] = type.dims[3] = kAnySide;
  }
  if (std::ranges::find(made.stages, "standardize", &CallSpec::name) != made.stages.end()) {
    const auto scale = scales.find(input.name);
    if (scale == scales.end()) {
      return content_error("XG0930", {"the checkpoint has no means and deviations of `{}`", input.name},
                           "take a checkpoint of a training, or export without --preprocess", binding.span);
    }
    made.means = scale->second.means;
    made.deviations = scale->second.deviations;
  }
  return made;
}

}  // namespace xrun::ops
