// Tests: tests/runtime/cli/commands/export_test.cpp
#include "ops/onnx/builder.h"

#include <algorithm>
#include <cctype>

#include "graph/base/check.h"

namespace xrun::ops {
namespace {

// Constants with more numbers than this are not shared, since comparing them would take longer than it saves.
constexpr size_t kMostShared = 64;

}  // namespace

OnnxType onnx_type(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return OnnxType::kUint8;
    case DType::kI32:
      return OnnxType::kInt32;
    case DType::kI64:
      return OnnxType::kInt64;
    case DType::kF64:
      return OnnxType::kDouble;
    case DType::kBool:
      return OnnxType::kBool;
    default:
      return OnnxType::kFloat;
  }
}

std::string OnnxBuilder::unique(std::string wish) {
  if (used_.insert(wish).second) {
    return wish;
  }
  for (int i = 2;; ++i) {
    if (std::string next = wish + "_" + std::to_string(i); used_.insert(next).second) {
      return next;
    }
  }
}

void OnnxBuilder::add_input(const NamedValue& input) {
  const TensorType& type = graph_.value(input.value).type;
  names_[input.value] = unique(input.name);
  made_.inputs.push_back({names_[input.value], onnx_type(type.dtype), type.dims});
}

std::string OnnxBuilder::add_input(OnnxValue input) {
  input.name = unique(input.name);
  made_.inputs.push_back(std::move(input));
  return made_.inputs.back().name;
}

const std::string& OnnxBuilder::name_of(ValueId value) {
  if (const auto known = names_.find(value); known != names_.end()) {
    return known->second;
  }
  const Value& wanted = graph_.value(value);
  XRUN_CHECK(wanted.param.valid(), "a value is used before it is made");
  return names_[value] =
             rows_of({.name = graph_.param(wanted.param).name, .dims = wanted.type.dims, .param = wanted.param});
}

// InsightFace's loader of ONNX files looks at the first eight nodes: if one name begins with Sub or _minus and one with
// Mul or _mul, it takes the network to normalise its pictures itself. So no name begins like that.
std::string OnnxBuilder::result_name(std::string_view op) {
  std::string name = path_.empty() ? std::string() : path_ + "/";
  name += op;
  for (const std::string_view mark : {"Sub", "_minus", "Mul", "_mul"}) {
    if (name.starts_with(mark)) {
      name = "node_" + name;
      break;
    }
  }
  return unique(std::move(name));
}

std::vector<std::string> OnnxBuilder::add_several(std::string_view op, size_t results, std::vector<std::string> inputs,
                                                  std::vector<OnnxAttribute> attributes) {
  const std::string name = result_name(op);
  OnnxNode node{.op = std::string(op), .name = name, .inputs = std::move(inputs), .attributes = std::move(attributes)};
  for (size_t i = 0; i < results; ++i) {
    node.outputs.push_back(results == 1 ? name : unique(name + "." + std::to_string(i)));
  }
  made_.nodes.push_back(node);
  return node.outputs;
}

std::string OnnxBuilder::add(std::string_view op, std::vector<std::string> inputs,
                             std::vector<OnnxAttribute> attributes) {
  return add_several(op, 1, std::move(inputs), std::move(attributes))[0];
}

std::string OnnxBuilder::floats(std::vector<float> values, std::vector<int64_t> dims) {
  const bool shared = values.size() <= kMostShared;
  if (const auto known = known_floats_.find({values, dims}); shared && known != known_floats_.end()) {
    return known->second;
  }
  const std::string name = unique("constant");
  if (shared) {
    known_floats_[{values, dims}] = name;
  }
  made_.constants.push_back({.name = name, .dims = std::move(dims), .floats = std::move(values)});
  return name;
}

std::string OnnxBuilder::doubles(std::vector<double> values, std::vector<int64_t> dims) {
  return rows_of({.name = "constant", .dims = std::move(dims), .doubles = std::move(values)});
}

std::string OnnxBuilder::integers(std::vector<int64_t> values, std::vector<int64_t> dims) {
  const bool shared = values.size() <= kMostShared;
  if (const auto known = known_integers_.find({values, dims}); shared && known != known_integers_.end()) {
    return known->second;
  }
  const std::string name = unique("integers");
  if (shared) {
    known_integers_[{values, dims}] = name;
  }
  made_.constants.push_back({.name = name, .dims = std::move(dims), .integers = std::move(values)});
  return name;
}

std::string OnnxBuilder::list(std::vector<int64_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return integers(std::move(values), {count});
}

std::string OnnxBuilder::rows_of(OnnxTensor rows) {
  rows.name = unique(std::move(rows.name));
  made_.constants.push_back(std::move(rows));
  return made_.constants.back().name;
}

std::string OnnxBuilder::reshape(std::string x, std::vector<int64_t> dims) {
  return add("Reshape", {std::move(x), list(std::move(dims))});
}

std::string OnnxBuilder::transpose(std::string x, std::vector<int64_t> order) {
  return add("Transpose", {std::move(x)}, {{"perm", std::move(order)}});
}

std::string OnnxBuilder::reduce(std::string_view op, std::string x, int64_t axis, bool keep) {
  std::vector<std::string> inputs{std::move(x)};
  std::vector<OnnxAttribute> attributes{{"keepdims", int64_t{keep}}};
  if (made_.opset >= 18) {
    inputs.push_back(list({axis}));
  } else {
    attributes.push_back({"axes", std::vector<int64_t>{axis}});
  }
  return add(op, std::move(inputs), std::move(attributes));
}

std::string OnnxBuilder::cast(std::string x, OnnxType type) {
  return add("Cast", {std::move(x)}, {{"to", static_cast<int64_t>(type)}});
}

std::string OnnxBuilder::product(std::string x, int rank, ValueId weight, const std::string& bias) {
  if (rank == 2) {
    std::vector<std::string> inputs{std::move(x), name_of(weight)};
    if (!bias.empty()) {
      inputs.push_back(bias);
    }
    return add("Gemm", std::move(inputs), {{"transB", int64_t{1}}});
  }
  const std::string columns = transpose(name_of(weight), {1, 0});
  std::string y = add("MatMul", {std::move(x), columns});
  return bias.empty() ? y : add("Add", {std::move(y), bias});
}

}  // namespace xrun::ops
