// Tests: tests/lang/causes_test.cpp, tests/lang/nothing_ignored_test.cpp
#include "lang/elaborate/trials/check_types.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "graph/types/tensor_type.h"
#include "lang/syntax/print_syntax.h"
#include "lang/text/foreign_names.h"

namespace xrun::lang {
namespace {

constexpr std::string_view kConstants[] = {"int", "float", "bool", "str", "pair", "list", "range", "symbol"};
constexpr std::string_view kElements[] = {"f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u8", "bool"};

class TypeChecker {
 public:
  TypeChecker(const Ast& ast, Diagnostics& diagnostics) : ast_(ast), diagnostics_(diagnostics) {}

  void declaration(const Decl& decl) {
    const auto params = ast_[decl.params];
    for (size_t i = 0; i < params.size(); ++i) {
      type(params[i].type);
      const auto before = params.first(i);
      if (std::ranges::find(before, params[i].name.text, [](const Param& p) { return p.name.text; }) != before.end()) {
        report("XG0202", params[i].name.span, {"two parameters are called `{}`", params[i].name.text}, "again",
               {"give one of them another name"});
      }
    }
    for (const Type& result : ast_[decl.results]) {
      type(result);
    }
    for (const Stmt& stmt : ast_[decl.body]) {
      if (stmt.kind == StmtKind::kInput && stmt.type.has_dims) {
        type(stmt.type);
        if (is_of_heads(stmt.type.name.text)) {
          report("XG0303", stmt.type.name.span, {"an input is not {}", stmt.type.name.text},
                 "only heads give such values",
                 {"leave `{}` out, or compute the value with a head: head id = classifier(x, classes)",
                  stmt.type.name.text});
        }
      }
    }
  }

 private:
  void type(const Type& type) {
    dimensions(type);
    const std::string_view name = type.name.text;
    if (!type.name) {
      return;
    }
    const bool is_constant = std::ranges::find(kConstants, name) != std::end(kConstants);
    const bool is_element = parse_dtype(name).has_value() || name == "index" || is_of_heads(name);
    if (type.has_dims ? !is_element : !is_element && !is_constant) {
      unknown(type);
    } else if (!type.has_dims && !is_constant) {
      report("XG0303", type.span, {"`{}` is the type of a tensor, and a tensor has dimensions", name},
             "no dimensions here", {"write them after it: {}", with_dimensions(type)});
    } else if (name == "index" && !type.argument.valid()) {
      report("XG0303", type.name.span, "`index` needs the number of classes", "no number here",
             {"write it in brackets, as a number or a name: index(C)[N]"});
    } else if (name == "index" && ast_[type.argument].kind == ExprKind::kName && ast_[type.argument].name.text == "N") {
      report("XG0303", ast_[type.argument].span, "`index` needs the number of classes, but `N` is the batch", "",
             {"write a number or another name: index(C)[N]"});
    } else if (name != "index" && type.argument.valid()) {
      report("XG0303", type.name.span, {"`{}` takes no argument", name}, "", {"write {} alone", name});
    }
  }

  std::string with_dimensions(const Type& type) const {
    return type.name.text != "index" ? std::string(type.name.text) + "[N, C]"
           : type.argument.valid()   ? print_type(ast_, type) + "[N]"
                                     : "index(C)[N]";
  }

  void unknown(const Type& type) {
    std::vector<std::string> names(std::begin(kElements), std::end(kElements));
    names.emplace_back("index");
    if (!type.has_dims) {
      names.insert(names.end(), std::begin(kConstants), std::end(kConstants));
    }
    report("XG0303", type.name.span, {"there is no {}type `{}`", type.has_dims ? "element " : "", type.name.text},
           "unknown type",
           our_name(NameKind::kElement, type.name.text, names, type.name.span,
                    {type.has_dims ? "write one of f64 f32 bf16 f16 i64 i32 i16 i8 u8 bool, or index(C)"
                                   : "write one of int float bool str list range symbol, or the type of a tensor, "
                                     "[N, C]"}));
  }

  void dimensions(const Type& type) {
    bool seen = false;
    for (const ExprId dim : ast_[type.dims]) {
      const bool any = ast_[dim].kind == ExprKind::kEllipsis;
      if (any && seen) {
        report("XG0303", ast_[dim].span, "`...` can be used only once in a type", "again",
               {"write names or numbers for the dimensions here"});
      }
      seen = seen || any;
    }
  }

  void report(const char* code, Span at, Text message, Text label, Help help) {
    diagnostics_.add(fault(code, at, std::move(message), std::move(label), std::move(help)));
  }

  const Ast& ast_;
  Diagnostics& diagnostics_;
};

}  // namespace

bool is_of_heads(std::string_view type) { return type == "sharded" || type == "cosines"; }

void check_types(const SourceFile& file, Diagnostics& diagnostics) {
  constexpr int kManyErrors = 100;  // further reports would not help
  TypeChecker checker(file.ast, diagnostics);
  for (const Decl& decl : file.ast.decls) {
    if (diagnostics.error_count() < kManyErrors) {
      checker.declaration(decl);
    }
  }
}

bool is_dimension_variable(const Expr& expr) {
  return expr.kind == ExprKind::kName && !expr.name.text.empty() &&
         std::isupper(static_cast<unsigned char>(expr.name.text[0])) != 0;
}

}  // namespace xrun::lang
