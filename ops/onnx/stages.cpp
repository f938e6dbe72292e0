// The stages of a data binding as nodes. Pictures have the order N, C, H, W between them. Pixels are f32, and the
// columns of a table f64 until a stage makes them f32, as in runtime/data/augment.
//
// `Resize` has the weights of runtime/data/pictures/resizer.h if pixels outside of the picture do not count
// (`exclude_outside`). A linear filter without antialiasing does not need this attribute: repeated border pixels give
// the same result. A cubic filter of bytes cuts off its overshoot after each pass, so each pass is a node.
// Tests: tests/runtime/cli/commands/export_preprocess_test.cpp
#include <algorithm>
#include <array>

#include "graph/base/check.h"
#include "graph/base/errors.h"
#include "ops/onnx/preprocessing.h"

namespace xrun::ops {
namespace {

class StageWriter {
 public:
  StageWriter(OnnxBuilder& to, const OnnxPreprocessing& from) : to_(to), from_(from), value_(from.field) {}

  // Appends all nodes and returns the name of their result, which has the type `target`.
  Result<std::string> write(const TensorType& target) {
    begin();
    for (const CallSpec& stage : from_.stages) {
      const AugmentDef& def = *data_registry().find_augment(stage.name);
      if (!def.only_training) {
        XRUN_TRY(add(stage));
      }
      XRUN_ASSIGN(value_.type, def.infer(value_, stage.args));
    }
    cast(onnx_type(target.dtype));
    if (value_.type.rank() == 4 && value_.type.dims[2] == kAnySide) {
      require_sides(target.dims[2], target.dims[3]);
    }
    return x_;
  }

 private:
  bool is_picture() const { return value_.type.rank() == 4; }
  bool is_bytes() const { return value_.type.dtype == DType::kU8; }

  // Declares the input. Decoders give the channels of a pixel one after another.
  void begin() {
    const TensorType& type = value_.type;
    OnnxValue input{from_.input, onnx_type(type.dtype), type.dims};
    type_ = input.type;
    const bool is_decoded = is_picture() && is_bytes();
    if (is_decoded) {
      std::rotate(input.dims.begin() + 1, input.dims.begin() + 2, input.dims.end());
    }
    x_ = to_.add_input(std::move(input));
    to_.begin(from_.input);
    if (is_decoded) {
      cast(OnnxType::kFloat);
      x_ = to_.transpose(x_, {0, 3, 1, 2});
    }
  }

  void cast(OnnxType type) {
    if (type_ != type) {
      x_ = to_.cast(x_, type);
      type_ = type;
    }
  }

  Status add(const CallSpec& stage) {
    const Attrs& args = stage.args;
    if (stage.name == "resize") {
      args.has("size") ? resize(args, sizes(picture_sides(args))) : resize(args, shorter(args.integer("shorter")));
    } else if (stage.name == "center_crop" || stage.name == "random_crop") {
      crop(args.integer("size"), args.integer("pad", 0));
    } else if (stage.name == "random_resized_crop") {
      largest_square();
      resize({}, sizes({args.integer("size"), args.integer("size")}));
    } else if (stage.name == "scale") {
      cast(OnnxType::kFloat);
      x_ = to_.add("Mul", {x_, to_.number(static_cast<float>(args.real("k")))});
    } else if (stage.name == "normalize") {
      normalize(args.reals("mean"), args.reals("std"));
    } else if (stage.name == "standardize") {
      cast(OnnxType::kDouble);
      x_ = to_.add("Sub", {x_, to_.doubles(from_.means, {std::ssize(from_.means)})});
      x_ = to_.add("Div", {x_, to_.doubles(from_.deviations, {std::ssize(from_.deviations)})});
    } else if (stage.name == "fill_missing") {
      const double value = args.real("value");
      const std::string filled =
          type_ == OnnxType::kDouble ? to_.doubles({value}, {}) : to_.number(static_cast<float>(value));
      x_ = to_.add("Where", {to_.add("IsNaN", {x_}), filled, x_});
    } else {
      return content_error("XG0930", {"the stage `{}` of `{}` has no form in ONNX", stage.name, from_.input},
                           "export without --preprocess", stage.span);
    }
    return {};
  }

  // ---- sides of pictures: lists of height and width

  std::string sides() { return to_.add("Shape", {x_}, {{"start", int64_t{2}}, {"end", int64_t{4}}}); }
  std::string shorter_side() { return to_.add("ReduceMin", {sides()}); }
  std::string sizes(std::pair<int64_t, int64_t> pair) { return to_.list({pair.first, pair.second}); }

  // The sides after the shorter one has become `length`; the longer one is cut off to a whole number.
  std::string shorter(int64_t length) {
    return to_.add("Div", {to_.add("Mul", {sides(), to_.list({length})}), shorter_side()});
  }

  // Half of each number of `free` pixels, rounded to even if it is above 0, and towards 0 otherwise.
  std::string middle(const std::string& free) {
    const std::string positive = to_.add("Max", {free, to_.list({0})});
    const std::string odd = to_.add("Div", {to_.add("Mod", {positive, to_.list({4})}), to_.list({3})});
    return to_.add("Add", {to_.add("Div", {free, to_.list({2})}), odd});
  }

  // `Slice` returns fewer pixels if the picture is too small; the Reshape then fails in onnxruntime.
  void fix_sides(int64_t height, int64_t width) { x_ = to_.reshape(x_, {0, value_.type.dims[1], height, width}); }

  // Fails in onnxruntime if the picture has other sides. A Reshape alone accepts all sides with the same product, such
  // as those of a picture on its side; the sum with zeros does not.
  void require_sides(int64_t height, int64_t width) {
    const std::string zeros = to_.add("ConstantOfShape", {to_.list({height, width})});
    x_ = to_.add("Add", {x_, type_ == OnnxType::kFloat ? zeros : to_.cast(zeros, type_)});
    fix_sides(height, width);
  }

  // ---- stages

  void resize(const Attrs& args, const std::string& sizes) {
    const bool is_cubic = args.has("filter") && args.text("filter") == "bicubic";
    const bool antialias = args.flag("antialias", true);
    std::vector<OnnxAttribute> attributes{{"mode", std::string(is_cubic ? "cubic" : "linear")},
                                          {"coordinate_transformation_mode", std::string("half_pixel")}};
    if (antialias) {
      attributes.push_back({"antialias", int64_t{1}});
    }
    if (is_cubic) {
      attributes.push_back({"cubic_coeff_a", -0.5F});
    }
    if (is_cubic || antialias) {
      attributes.push_back({"exclude_outside", int64_t{1}});
    }
    if (!is_cubic || !is_bytes()) {
      pass(sizes, {2, 3}, attributes);
      return;
    }
    const auto side = [&](int64_t i) { return to_.add("Slice", {sizes, to_.list({i}), to_.list({i + 1})}); };
    for (const int64_t axis : {3, 2}) {
      pass(side(axis - 2), {axis}, attributes);
      x_ = to_.add("Clip", {x_, to_.number(0), to_.number(255)});
    }
  }

  void pass(const std::string& sizes, std::vector<int64_t> axes, std::vector<OnnxAttribute> attributes) {
    attributes.push_back({"axes", std::move(axes)});
    x_ = to_.add("Resize", {x_, "", "", sizes}, std::move(attributes));
  }

  void take(const std::string& start, const std::string& length) {
    x_ = to_.add("Slice", {x_, start, to_.add("Add", {start, length}), to_.list({2, 3})});
  }

  void crop(int64_t size, int64_t pad) {
    if (value_.type.dims[2] == size && value_.type.dims[3] == size) {
      return;  // outside of training, padding then changes nothing
    }
    const std::string length = to_.list({size, size});
    std::string start = middle(to_.add("Sub", {sides(), length}));
    if (pad > 0) {
      start = to_.add("Add", {start, to_.list({pad})});
      x_ = to_.add("Pad", {x_, to_.list({0, 0, pad, pad, 0, 0, pad, pad})});
    }
    take(start, length);
    fix_sides(size, size);
  }

  void largest_square() {
    const std::string side = shorter_side();
    take(middle(to_.add("Sub", {sides(), side})), side);
  }

  // (x - mean) / std as x times one number plus another, which are rounded to f32 as in the loader.
  void normalize(const std::vector<double>& mean, const std::vector<double>& std) {
    cast(OnnxType::kFloat);
    std::vector<float> factor;
    std::vector<float> offset;
    for (size_t i = 0; i < std::max(mean.size(), std.size()); ++i) {
      const double s = std[std.size() == 1 ? 0 : i];
      factor.push_back(static_cast<float>(1 / s));
      offset.push_back(static_cast<float>(-mean[mean.size() == 1 ? 0 : i] / s));
    }
    const std::vector<int64_t> dims =
        factor.size() == 1 ? std::vector<int64_t>() : std::vector<int64_t>{std::ssize(factor), 1, 1};
    x_ = to_.add("Add", {to_.add("Mul", {x_, to_.floats(factor, dims)}), to_.floats(offset, dims)});
  }

  OnnxBuilder& to_;
  const OnnxPreprocessing& from_;
  Field value_;  // the value at this place of the binding
  std::string x_;
  OnnxType type_ = OnnxType::kFloat;
};

}  // namespace

Status add_preprocessing(OnnxBuilder& to, const OnnxPreprocessing& from, const NamedValue& input) {
  XRUN_CHECK(to.made().opset >= kResizeOpset, "an operator set without antialiasing");
  XRUN_ASSIGN(std::string made, StageWriter(to, from).write(to.type(input.value)));
  to.set_name(input.value, std::move(made));
  return {};
}

}  // namespace xrun::ops
