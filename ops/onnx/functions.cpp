// Functions of numbers, element by element. Each operation of a ScalarExpr is a node; comparisons are bool in ONNX and
// become numbers where they are computed with.
// Tests: tests/runtime/cli/commands/export_test.cpp
#include <array>
#include <map>
#include <optional>

#include "graph/base/errors.h"
#include "graph/types/scalar_expr.h"
#include "ops/onnx/rules.h"

namespace xrun::ops {
namespace {

struct OnnxScalar {
  ScalarOp op;
  std::string_view name;
  bool compares = false;
};

constexpr OnnxScalar kScalars[] = {
    {ScalarOp::kAdd, "Add"},           {ScalarOp::kSub, "Sub"},         {ScalarOp::kMul, "Mul"},
    {ScalarOp::kDiv, "Div"},           {ScalarOp::kPow, "Pow"},         {ScalarOp::kMin, "Min"},
    {ScalarOp::kMax, "Max"},           {ScalarOp::kLess, "Less", true}, {ScalarOp::kLessEqual, "LessOrEqual", true},
    {ScalarOp::kEqual, "Equal", true}, {ScalarOp::kNeg, "Neg"},         {ScalarOp::kExp, "Exp"},
    {ScalarOp::kLog, "Log"},           {ScalarOp::kSqrt, "Sqrt"},       {ScalarOp::kAbs, "Abs"},
    {ScalarOp::kSign, "Sign"},         {ScalarOp::kFloor, "Floor"},     {ScalarOp::kErf, "Erf"},
    {ScalarOp::kSin, "Sin"},           {ScalarOp::kCos, "Cos"},         {ScalarOp::kAcos, "Acos"},
    {ScalarOp::kTanh, "Tanh"},         {ScalarOp::kSigmoid, "Sigmoid"},
};

const OnnxScalar* find(ScalarOp op) {
  for (const OnnxScalar& scalar : kScalars) {
    if (scalar.op == op) {
      return &scalar;
    }
  }
  return nullptr;
}

class FunctionWriter {
 public:
  FunctionWriter(OnnxBuilder& to, const Node& node, const ScalarExpr& expr)
      : to_(to), node_(node), expr_(expr), made_(expr.nodes().size()) {}

  // The name of an operation's result, a float.
  std::string number(ScalarId id) {
    Made& made = make(id);
    if (made.number.empty()) {
      made.number = to_.cast(made.condition, OnnxType::kFloat);
    }
    return made.number;
  }

 private:
  struct Made {
    std::string number;     // empty if only the condition has been made
    std::string condition;  // a bool; empty if only the number has been made
  };

  std::string condition(ScalarId id) {
    Made& made = make(id);
    if (made.condition.empty()) {
      made.condition = to_.cast(made.number, OnnxType::kBool);
    }
    return made.condition;
  }

  Made& make(ScalarId id) {
    Made& made = made_[static_cast<size_t>(id.index)];
    if (!made.number.empty() || !made.condition.empty()) {
      return made;
    }
    const ScalarNode& node = expr_.node(id);
    if (node.op == ScalarOp::kInput) {
      made.number = input_of(to_, node_, static_cast<size_t>(node.input));
    } else if (node.op == ScalarOp::kConstant) {
      made.number = to_.number(static_cast<float>(node.value));
    } else if (node.op == ScalarOp::kSelect) {
      made.number = to_.add("Where", {condition(node.args[0]), number(node.args[1]), number(node.args[2])});
    } else if (node.op == ScalarOp::kMax && is_zero(node.args[1])) {
      made.number = to_.add("Relu", {number(node.args[0])});
    } else {
      const OnnxScalar& scalar = *find(node.op);
      std::vector<std::string> inputs;
      for (int i = 0; i < arity_of(node.op); ++i) {
        inputs.push_back(number(node.args[static_cast<size_t>(i)]));
      }
      (scalar.compares ? made.condition : made.number) = to_.add(scalar.name, std::move(inputs));
    }
    return made;
  }

  bool is_zero(ScalarId id) const {
    const double* const value = expr_.constant_of(id);
    return value != nullptr && *value == 0;
  }

  OnnxBuilder& to_;
  const Node& node_;
  const ScalarExpr& expr_;
  std::vector<Made> made_;  // index: node of the expression
};

}  // namespace

Status function_rule(OnnxBuilder& to, const Node& node) {
  XRUN_ASSIGN(const ScalarExpr expr, parse_scalar_expr(node.op->expr(node.attrs)));
  for (const ScalarNode& part : expr.nodes()) {
    if (part.op == ScalarOp::kBf16 || part.op == ScalarOp::kF16) {
      return content_error("XG0930", {"`{}` rounds to {}, which is not exported", node.path, name_of(part.op)},
                           "export the model with precision = f32");
    }
  }
  FunctionWriter writer(to, node, expr);
  for (size_t i = 0; i < expr.results().size(); ++i) {
    to.set_name(node.outputs[i], writer.number(expr.results()[i]));
  }
  return {};
}

}  // namespace xrun::ops
