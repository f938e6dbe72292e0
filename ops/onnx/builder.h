// Builds an OnnxGraph node by node; the rules of operators (ops/onnx/rules.h) call it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/units.h"
#include "ops/onnx/onnx_graph.h"

namespace xrun::ops {

// The form in which the class rows of heads are stored.
struct HeadForm {
  Bytes piece = 256 * kMiB;                // the most bytes of rows in one constant, counted in f32
  std::set<std::string, std::less<>> fp8;  // heads whose rows are stored in fp8
};

// The type in an ONNX file for values of this type. Floats of 8 and 16 bits become f32, in which xrun computes with
// them.
OnnxType onnx_type(DType dtype);

class OnnxBuilder {
 public:
  // `opset`: the operator set, whose forms the nodes have.
  explicit OnnxBuilder(const Graph& graph, int64_t opset = kOnnxOpset, HeadForm heads = {})
      : graph_(graph), heads_(std::move(heads)) {
    made_.opset = opset;
  }

  const Graph& graph() const { return graph_; }
  const HeadForm& heads() const { return heads_; }
  const TensorType& type(ValueId value) const { return graph_.value(value).type; }

  // The name of a value. A parameter becomes a constant when it is used for the first time. REQUIRES: the value is an
  // input, a parameter, or was set before.
  const std::string& name_of(ValueId value);
  void set_name(ValueId value, std::string name) { names_[value] = std::move(name); }
  // Declares an input of the model.
  void add_input(const NamedValue& input);
  // Declares an input of another type, and returns its name.
  std::string add_input(OnnxValue input);

  // Sets the node of the graph that the next ONNX nodes belong to; their names begin with its path.
  void begin(const Node& node) { path_ = node.path; }
  void begin(std::string path) { path_ = std::move(path); }
  // Appends a node with one result, and returns the name of the result.
  std::string add(std::string_view op, std::vector<std::string> inputs, std::vector<OnnxAttribute> attributes = {});
  // Appends a node with several results.
  std::vector<std::string> add_several(std::string_view op, size_t results, std::vector<std::string> inputs,
                                       std::vector<OnnxAttribute> attributes = {});
  // Add a constant and return its name. Equal constants of few numbers are shared.
  std::string floats(std::vector<float> values, std::vector<int64_t> dims);
  std::string doubles(std::vector<double> values, std::vector<int64_t> dims);
  std::string number(float value) { return floats({value}, {}); }
  std::string integers(std::vector<int64_t> values, std::vector<int64_t> dims);
  // A list of whole numbers as a vector, as shapes and axes are given.
  std::string list(std::vector<int64_t> values);
  std::string rows_of(OnnxTensor rows);  // a constant whose values are those of a parameter

  // Gives `x` other dimensions. 0 stands for the same size as before, and -1 for what is left.
  std::string reshape(std::string x, std::vector<int64_t> dims);
  std::string transpose(std::string x, std::vector<int64_t> order);
  // Applies ReduceMean, ReduceMax, ReduceMin or ReduceL2 along an axis. From operator set 18 on, their axes are an
  // input.
  std::string reduce(std::string_view op, std::string x, int64_t axis, bool keep);
  std::string cast(std::string x, OnnxType type);
  // y = x · weightᵀ + bias, for x of any rank. `weight`: the parameter [out, in]; `bias`: a name, or empty.
  std::string product(std::string x, int rank, ValueId weight, const std::string& bias);

  OnnxGraph take() { return std::move(made_); }
  OnnxGraph& made() { return made_; }
  // Returns `wish`, or `wish` with a number if the name is in use.
  std::string unique(std::string wish);

 private:
  std::string result_name(std::string_view op);

  const Graph& graph_;
  HeadForm heads_;
  OnnxGraph made_;
  std::map<ValueId, std::string> names_;
  std::set<std::string, std::less<>> used_;
  std::map<std::pair<std::vector<float>, std::vector<int64_t>>, std::string> known_floats_;
  std::map<std::pair<std::vector<int64_t>, std::vector<int64_t>>, std::string> known_integers_;
  std::string path_;
};

}  // namespace xrun::ops
