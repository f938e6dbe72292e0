// Tests: tests/lang/syntax/parse_golden_test.cpp, tests/lang/syntax/parser_test.cpp
#include "lang/syntax/expr_printer.h"

#include "graph/base/utf8.h"
#include "lang/syntax/print_syntax.h"

namespace xrun::lang {

void ExprPrinter::one(ExprId id) {
  if (!id.valid()) {
    return put("<error>");
  }
  const Expr& e = ast_[id];
  switch (e.kind) {
    case ExprKind::kError:
      return put("<error>");
    case ExprKind::kNumber:
      return number(ast_.number(id));
    case ExprKind::kString:
      return string(ast_.text(id));
    case ExprKind::kBool:
      return put(e.flag ? "true" : "false");
    case ExprKind::kAuto:
      return put("auto");
    case ExprKind::kNone:
      return put("none");
    case ExprKind::kName:
      return put(e.name);
    case ExprKind::kEllipsis:
      return put("...");
    case ExprKind::kTuple:
      return put("(", e.items, e.items.count == 1 ? ",)" : ")");
    case ExprKind::kList:
      return put("[", e.items, "]");
    case ExprKind::kCall:
      operand(e.lhs);
      put("(");
      list(e.args, ", ");
      return put(")");
    case ExprKind::kIndex:
      operand(e.lhs);
      return put("[", e.items, "]");
    case ExprKind::kField:
      operand(e.lhs);
      return put(".", e.name);
    case ExprKind::kUnary:
      return put(e.op == Op::kNot ? "(not " : "(-", e.lhs, ")");
    case ExprKind::kBinary:
      return put("(", e.lhs, " ", text_of(e.op), " ", e.rhs, ")");
    case ExprKind::kRange:
      return put("(", e.lhs, " .. ", e.rhs, ")");
    case ExprKind::kIf:
      return put("(if ", e.condition, " { ", e.lhs, " } else { ", e.rhs, " })");
    case ExprKind::kPipe:
      return put("(", e.lhs, " -> ", e.stages, ")");
  }
}

void ExprPrinter::one(const Type& type) {
  put(type.name);
  if (type.argument.valid()) {
    put("(", type.argument, ")");
  }
  if (type.has_dims) {
    put("[", type.dims, "]");
  }
}

void ExprPrinter::one(const Arg& arg) { put(arg.name, arg.name ? "=" : "", arg.value); }

void ExprPrinter::one(const Param& param) {
  put(param.name);
  if (param.type.span.valid()) {
    put(": ", param.type);
  }
  if (param.value.valid()) {
    put(" = ", param.value);
  }
}

void ExprPrinter::one(Run<Param> params) {
  put("(");
  list(params, ", ");
  put(")");
}

void ExprPrinter::number(const Number& n) {
  put(n.text);
  if (n.unit != kNoUnit) {
    put(info_of(n.unit).word ? " " : "", info_of(n.unit).text);
  }
}

void ExprPrinter::string(const std::string& text) {
  put("\"");
  for (const char c : text) {
    if (c == '\n' || c == '\t') {
      put(c == '\n' ? "\\n" : "\\t");
    } else if (is_control(c)) {
      put(escape_of(c));
    } else {
      put(c == '"' || c == '\\' ? "\\" : "", std::string_view(&c, 1));
    }
  }
  put("\"");
}

// Prints the operand of a call, an index or a field. A number gets parentheses, because `1.x` would be read as a number
// with a dot.
void ExprPrinter::operand(ExprId id) {
  const bool wrap = id.valid() && ast_[id].kind == ExprKind::kNumber;
  put(wrap ? "(" : "", id, wrap ? ")" : "");
}

void ExprPrinter::one(const Stage& stage) {
  const std::span<const Pipe> pipes = ast_[stage.pipes];
  switch (stage.kind) {
    case StageKind::kError:
      put("<error>");
      break;
    case StageKind::kCall:
      put(join_path(ast_[stage.path]));
      if (stage.has_args) {
        put("(");
        list(stage.args, ", ");
        put(")");
      }
      break;
    case StageKind::kRepeat:
      put("repeat ", stage.value, stage.index ? " as " : "", stage.index, " { ", pipes[0].stages, " }");
      break;
    case StageKind::kResidual:
      put("residual { ", pipes[0].stages, " }");
      break;
    case StageKind::kFork:
      put("fork { ");
      for (const Pipe& pipe : pipes) {
        put(&pipe == pipes.data() ? "" : ", ", pipe.stages);
      }
      put(" }");
      break;
    case StageKind::kIf:
      put("if ", stage.value, " { ", pipes[0].stages, " }");
      if (pipes.size() > 1) {
        put(" else { ", pipes[1].stages, " }");
      }
      break;
  }
  put(stage.label ? " as " : "", stage.label);
}

std::string print_type(const Ast& ast, const Type& type) {
  std::string out;
  ExprPrinter(ast, out).put(type);
  return out;
}

}  // namespace xrun::lang
