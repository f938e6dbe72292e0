#include "lang/syntax/expr_printer.h"

#include "graph/base/utf8.h"
#include "lang/syntax/print_syntax.h"

namespace xrun::lang {

void ExprPrinter::expr(ExprId id) {
  if (!id.valid()) {
    out_ += "<error>";
    return;
  }
  const Expr& e = ast_[id];
  switch (e.kind) {
    case ExprKind::kError:
      out_ += "<error>";
      break;
    case ExprKind::kNumber:
      number(ast_.number(id));
      break;
    case ExprKind::kString:
      string(ast_.text(id));
      break;
    case ExprKind::kBool:
      out_ += e.flag ? "true" : "false";
      break;
    case ExprKind::kAuto:
      out_ += "auto";
      break;
    case ExprKind::kNone:
      out_ += "none";
      break;
    case ExprKind::kName:
      out_ += e.name.text;
      break;
    case ExprKind::kEllipsis:
      out_ += "...";
      break;
    case ExprKind::kTuple:
      out_ += "(";
      list(e.items);
      out_ += e.items.count == 1 ? ",)" : ")";
      break;
    case ExprKind::kList:
      out_ += "[";
      list(e.items);
      out_ += "]";
      break;
    case ExprKind::kCall:
      operand(e.lhs);
      args(e.args);
      break;
    case ExprKind::kIndex:
      operand(e.lhs);
      out_ += "[";
      list(e.items);
      out_ += "]";
      break;
    case ExprKind::kField:
      operand(e.lhs);
      out_ += ".";
      out_ += e.name.text;
      break;
    case ExprKind::kUnary:
      out_ += e.op == Op::kNot ? "(not " : "(-";
      expr(e.lhs);
      out_ += ")";
      break;
    case ExprKind::kBinary:
    case ExprKind::kRange:
      out_ += "(";
      expr(e.lhs);
      out_ += " ";
      out_ += e.kind == ExprKind::kRange ? ".." : text_of(e.op);
      out_ += " ";
      expr(e.rhs);
      out_ += ")";
      break;
    case ExprKind::kIf:
      out_ += "(if ";
      expr(e.condition);
      out_ += " { ";
      expr(e.lhs);
      out_ += " } else { ";
      expr(e.rhs);
      out_ += " })";
      break;
    case ExprKind::kPipe:
      out_ += "(";
      expr(e.lhs);
      out_ += " -> ";
      stages(e.stages);
      out_ += ")";
      break;
  }
}

void ExprPrinter::type(const Type& t) {
  out_ += t.name.text;
  if (t.argument.valid()) {
    out_ += "(";
    expr(t.argument);
    out_ += ")";
  }
  if (t.has_dims) {
    out_ += "[";
    list(t.dims);
    out_ += "]";
  }
}

void ExprPrinter::params(Run<Param> run) {
  out_ += "(";
  for (const Param& param : ast_[run]) {
    out_ += out_.back() == '(' ? "" : ", ";
    out_ += param.name.text;
    if (param.type.span.valid()) {
      out_ += ": ";
      type(param.type);
    }
    if (param.value.valid()) {
      out_ += " = ";
      expr(param.value);
    }
  }
  out_ += ")";
}

void ExprPrinter::number(const Number& n) {
  out_ += n.text;
  if (n.unit != kNoUnit) {
    out_ += info_of(n.unit).word ? " " : "";
    out_ += info_of(n.unit).text;
  }
}

void ExprPrinter::string(const std::string& text) {
  out_ += '"';
  for (const char c : text) {
    switch (c) {
      case '\n':
        out_ += "\\n";
        break;
      case '\t':
        out_ += "\\t";
        break;
      case '"':
      case '\\':
        out_ += '\\';
        out_ += c;
        break;
      default:
        if (is_control(c)) {
          out_ += escape_of(c);
        } else {
          out_ += c;
        }
    }
  }
  out_ += '"';
}

// What a call, an index or a field is taken of; a number there would swallow the dot.
void ExprPrinter::operand(ExprId id) {
  const bool wrap = id.valid() && ast_[id].kind == ExprKind::kNumber;
  out_ += wrap ? "(" : "";
  expr(id);
  out_ += wrap ? ")" : "";
}

void ExprPrinter::list(Run<ExprId> run) {
  bool first = true;
  for (const ExprId item : ast_[run]) {
    out_ += first ? "" : ", ";
    first = false;
    expr(item);
  }
}

void ExprPrinter::args(Run<Arg> run) {
  out_ += "(";
  bool first = true;
  for (const Arg& arg : ast_[run]) {
    out_ += first ? "" : ", ";
    first = false;
    if (arg.name) {
      out_ += arg.name.text;
      out_ += "=";
    }
    expr(arg.value);
  }
  out_ += ")";
}

void ExprPrinter::stages(Run<Stage> run) {
  bool first = true;
  for (const Stage& s : ast_[run]) {
    out_ += first ? "" : " -> ";
    first = false;
    stage(s);
  }
}

void ExprPrinter::fragment(const Pipe& pipe) {
  out_ += " { ";
  stages(pipe.stages);
  out_ += " }";
}

void ExprPrinter::stage(const Stage& s) {
  const std::span<const Pipe> pipes = ast_[s.pipes];
  switch (s.kind) {
    case StageKind::kError:
      out_ += "<error>";
      break;
    case StageKind::kCall:
      out_ += join_path(ast_[s.path]);
      if (s.has_args) {
        args(s.args);
      }
      break;
    case StageKind::kRepeat:
      out_ += "repeat ";
      expr(s.value);
      if (s.index) {
        out_ += " as ";
        out_ += s.index.text;
      }
      fragment(pipes[0]);
      break;
    case StageKind::kResidual:
      out_ += "residual";
      fragment(pipes[0]);
      break;
    case StageKind::kFork:
      out_ += "fork { ";
      for (size_t i = 0; i < pipes.size(); ++i) {
        out_ += i == 0 ? "" : ", ";
        stages(pipes[i].stages);
      }
      out_ += " }";
      break;
    case StageKind::kIf:
      out_ += "if ";
      expr(s.value);
      fragment(pipes[0]);
      if (pipes.size() > 1) {
        out_ += " else";
        fragment(pipes[1]);
      }
      break;
  }
  if (s.label) {
    out_ += " as ";
    out_ += s.label.text;
  }
}

std::string print_expr(const Ast& ast, ExprId id) {
  std::string out;
  ExprPrinter(ast, out).expr(id);
  return out;
}

std::string print_type(const Ast& ast, const Type& type) {
  std::string out;
  ExprPrinter(ast, out).type(type);
  return out;
}

std::string print_params(const Ast& ast, Run<Param> params) {
  std::string out;
  ExprPrinter(ast, out).params(params);
  return out;
}

}  // namespace xrun::lang
