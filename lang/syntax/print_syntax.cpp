// Tests: tests/lang/syntax/parse_golden_test.cpp, tests/lang/syntax/parser_test.cpp
#include "lang/syntax/print_syntax.h"

#include <algorithm>

#include "lang/syntax/expr_printer.h"

namespace xrun::lang {
namespace {

// Prints statements, settings and declarations. The base class prints the expressions in them.
class Printer : private ExprPrinter {
 public:
  using ExprPrinter::ExprPrinter;

  void file() {
    put("xgraph ", std::to_string(ast_.edition), "\n", ast_.doc.empty() ? "" : "\n");
    doc(ast_.doc);
    for (const Decl& decl : ast_.decls) {
      put("\n");
      doc(decl.doc);
      declaration(decl);
      put("\n");
    }
  }

 private:
  void doc(const std::string& text) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      put(end == begin ? "##" : "## ", text.substr(begin, end - begin), "\n");
      begin = end + 1;
    }
  }

  // Appends the text `before` and the expression, if there is an expression.
  void value(std::string_view before, ExprId id) {
    if (id.valid()) {
      put(before, id);
    }
  }

  void statement(const Stmt& s) {
    constexpr std::string_view kWords[] = {"<error>", "input ",  "output ", "head ",   "param ",
                                           "state ",  "return ", "assert ", "expect ", ""};
    put(kWords[static_cast<size_t>(s.kind)]);
    if (s.kind == StmtKind::kError) {
      return;
    }
    if (s.kind == StmtKind::kReturn || s.kind == StmtKind::kAssert || s.kind == StmtKind::kExpect) {
      put(s.value);
      return value(", ", s.message);
    }
    put(s.is_tuple ? "(" : "");
    list(s.names, ", ");
    put(s.is_tuple ? ")" : "");
    if (s.type.span.valid()) {
      put(": ", s.type);
    }
    value(" = ", s.value);
  }

  void setting(const Setting& s) {
    const std::string path = join_path(ast_[s.path]);
    switch (s.kind) {
      case SettingKind::kError:
        return put("<error>");
      case SettingKind::kSource:
        return put("source ", s.name, " = ", s.value);
      case SettingKind::kValue:
        return put(path, " = ", s.value);
      case SettingKind::kGroup:
        put(path, s.name ? " " : "", s.name);
        return braces(s.settings, &Printer::setting);
      case SettingKind::kMoved:
        return put("moved ", s.value, " -> ", s.to);
    }
  }

  template <class T>
  void braces(Run<T> run, void (Printer::*print)(const T&)) {
    put(" {");
    indent_ += 2;
    for (const T& item : ast_[run]) {
      put("\n", std::string(indent_, ' '));
      (this->*print)(item);
    }
    indent_ -= 2;
    put("\n", std::string(indent_, ' '), "}");
  }

  void declaration(const Decl& d) {
    if (d.kind == DeclKind::kError) {
      return put("<error>");
    }
    put(keyword_of(d.kind));
    value(" ", d.text);
    put(!d.name ? "" : d.kind == DeclKind::kImport ? " as " : " ", d.name);
    put(d.type_name ? ": " : "", d.type_name, d.names.empty() ? "" : " use ");
    list(d.names, ", ");
    if (d.has_params) {
      put(d.params);
    }
    put(d.results.empty() ? "" : " -> ");
    list(d.results, ", ");
    put(d.base ? " extends " : "", d.base);
    value(" -> ", d.to);
    value(" = ", d.value);
    value(" in ", d.range);
    if (has_settings(d.kind)) {
      braces(d.settings, &Printer::setting);
    } else if (has_body(d.kind)) {
      braces(d.body, &Printer::statement);
    }
  }

  size_t indent_ = 0;
};

}  // namespace

std::string print_ast(const Ast& ast) {
  std::string out;
  Printer(ast, out).file();
  return out;
}

}  // namespace xrun::lang
