#include "lang/print_syntax.h"

#include <algorithm>

namespace xrun::lang {
namespace {

class Printer {
 public:
  explicit Printer(const Ast& ast) : ast_(ast) {}
  std::string text() && { return std::move(out_); }

  void file() {
    out_ += "xgraph " + std::to_string(ast_.edition) + "\n";
    if (!ast_.doc.empty()) {
      out_ += "\n";
      doc(ast_.doc);
    }
    for (const Decl& decl : ast_.decls) {
      out_ += "\n";
      doc(decl.doc);
      declaration(decl);
      out_ += "\n";
    }
  }

  void expr(ExprId id) {
    if (!id.valid()) {
      out_ += "<hole>";
      return;
    }
    const Expr& e = ast_[id];
    switch (e.kind) {
      case ExprKind::kHole:
        out_ += "<hole>";
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

  void type(const Type& t) {
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

  void params(Run<Param> run) {
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

 private:
  void line() { out_.append("\n").append(static_cast<size_t>(2 * indent_), ' '); }

  void doc(const std::string& text) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      out_ += end == begin ? "##" : "## ";
      out_ += text.substr(begin, end - begin) + "\n";
      begin = end + 1;
    }
  }

  void number(const Number& n) {
    out_ += n.text;
    if (n.unit != kNoUnit) {
      out_ += info_of(n.unit).word ? " " : "";
      out_ += info_of(n.unit).text;
    }
  }

  void string(const std::string& text) {
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
          out_ += c;
      }
    }
    out_ += '"';
  }

  // What a call, an index or a field is taken of; a number there would swallow the dot.
  void operand(ExprId id) {
    const bool wrap = id.valid() && ast_[id].kind == ExprKind::kNumber;
    out_ += wrap ? "(" : "";
    expr(id);
    out_ += wrap ? ")" : "";
  }

  void list(Run<ExprId> run) {
    bool first = true;
    for (const ExprId item : ast_[run]) {
      out_ += first ? "" : ", ";
      first = false;
      expr(item);
    }
  }

  void args(Run<Arg> run) {
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

  void stages(Run<Stage> run) {
    bool first = true;
    for (const Stage& s : ast_[run]) {
      out_ += first ? "" : " -> ";
      first = false;
      stage(s);
    }
  }

  void fragment(const Pipe& pipe) {
    out_ += " { ";
    stages(pipe.stages);
    out_ += " }";
  }

  void stage(const Stage& s) {
    const std::span<const Pipe> pipes = ast_[s.pipes];
    switch (s.kind) {
      case StageKind::kHole:
        out_ += "<hole>";
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

  void names(Run<Name> run) {
    bool first = true;
    for (const Name& name : ast_[run]) {
      out_ += first ? "" : ", ";
      first = false;
      out_ += name.text;
    }
  }

  void value(const char* before, ExprId id) {
    if (id.valid()) {
      out_ += before;
      expr(id);
    }
  }

  void statement(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::kHole:
        out_ += "<hole>";
        return;
      case StmtKind::kInput:
        out_ += "input ";
        break;
      case StmtKind::kOutput:
        out_ += "output ";
        break;
      case StmtKind::kHead:
        out_ += "head ";
        break;
      case StmtKind::kParam:
        out_ += "param ";
        break;
      case StmtKind::kState:
        out_ += "state ";
        break;
      case StmtKind::kReturn:
        value("return ", s.value);
        return;
      case StmtKind::kAssert:
        value("assert ", s.value);
        value(", ", s.message);
        return;
      case StmtKind::kExpect:
        value("expect ", s.value);
        return;
      case StmtKind::kBind:
        break;
    }
    out_ += s.is_tuple ? "(" : "";
    names(s.names);
    out_ += s.is_tuple ? ")" : "";
    if (s.type.span.valid()) {
      out_ += ": ";
      type(s.type);
    }
    value(" = ", s.value);
  }

  void setting(const Setting& s) {
    switch (s.kind) {
      case SettingKind::kHole:
        out_ += "<hole>";
        break;
      case SettingKind::kSource:
        out_ += "source ";
        out_ += s.name.text;
        value(" = ", s.value);
        break;
      case SettingKind::kValue:
        out_ += join_path(ast_[s.path]);
        value(" = ", s.value);
        break;
      case SettingKind::kGroup:
        out_ += join_path(ast_[s.path]);
        out_ += s.name ? " " : "";
        out_ += s.name.text;
        settings(s.settings);
        break;
    }
  }

  void settings(Run<Setting> run) {
    out_ += " {";
    ++indent_;
    for (const Setting& s : ast_[run]) {
      line();
      setting(s);
    }
    --indent_;
    line();
    out_ += "}";
  }

  void body(Run<Stmt> run) {
    out_ += " {";
    ++indent_;
    for (const Stmt& s : ast_[run]) {
      line();
      statement(s);
    }
    --indent_;
    line();
    out_ += "}";
  }

  void declaration(const Decl& d) {
    if (d.kind == DeclKind::kHole) {
      out_ += "<hole>";
      return;
    }
    out_ += keyword_of(d.kind);
    value(" ", d.text);
    if (d.name) {
      out_ += d.kind == DeclKind::kImport ? " as " : " ";
      out_ += d.name.text;
    }
    if (d.type_name) {
      out_ += ": ";
      out_ += d.type_name.text;
    }
    if (!d.names.empty()) {
      out_ += " use ";
      names(d.names);
    }
    if (d.has_params) {
      params(d.params);
    }
    if (!d.results.empty()) {
      bool first = true;
      for (const Type& result : ast_[d.results]) {
        out_ += first ? " -> " : ", ";
        first = false;
        type(result);
      }
    }
    if (d.base) {
      out_ += " extends ";
      out_ += d.base.text;
    }
    value(" -> ", d.to);
    value(" = ", d.value);
    value(" in ", d.range);
    if (d.kind >= DeclKind::kData && d.kind <= DeclKind::kRun) {
      settings(d.settings);
    } else if (d.kind == DeclKind::kOptimizer || d.kind == DeclKind::kBlock || d.kind == DeclKind::kModel ||
               d.kind == DeclKind::kTest) {
      body(d.body);
    }
  }

  const Ast& ast_;
  std::string out_;
  int indent_ = 0;
};

}  // namespace

std::string print_ast(const Ast& ast) {
  Printer printer(ast);
  printer.file();
  return std::move(printer).text();
}

std::string print_expr(const Ast& ast, ExprId id) {
  Printer printer(ast);
  printer.expr(id);
  return std::move(printer).text();
}

std::string print_type(const Ast& ast, const Type& type) {
  Printer printer(ast);
  printer.type(type);
  return std::move(printer).text();
}

std::string print_params(const Ast& ast, Run<Param> params) {
  Printer printer(ast);
  printer.params(params);
  return std::move(printer).text();
}

}  // namespace xrun::lang
