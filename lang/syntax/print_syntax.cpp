#include "lang/syntax/print_syntax.h"

#include <algorithm>

#include "lang/syntax/expr_printer.h"

namespace xrun::lang {
namespace {

// Statements, settings and declarations around what ExprPrinter prints.
class Printer : private ExprPrinter {
 public:
  using ExprPrinter::ExprPrinter;

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
      case StmtKind::kError:
        out_ += "<error>";
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
      case SettingKind::kError:
        out_ += "<error>";
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
    if (d.kind == DeclKind::kError) {
      out_ += "<error>";
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

  int indent_ = 0;
};

}  // namespace

std::string print_ast(const Ast& ast) {
  std::string out;
  Printer(ast, out).file();
  return out;
}

}  // namespace xrun::lang
