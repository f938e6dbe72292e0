// The syntax tree of one file as a value: nodes lie in the vectors of an Ast, handles are ids and runs, every node has
// its span. Nothing is resolved here: names are text, and what could not be parsed is an error node.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lang/syntax/number.h"
#include "lang/syntax/syntax_decl.h"
#include "lang/syntax/syntax_expr.h"

namespace xrun::lang {

// The tree. `const` once parsed; spans returned here live as long as the Ast.
class Ast {
 public:
  int32_t file = -1;
  int edition = 0;  // of `xgraph 1`; 0 when the line is missing (reported)
  std::string doc;  // the ## comments between `xgraph 1` and the first declaration that are set off by a blank line
  std::vector<Decl> decls;  // in source order
  Run<Param> params;        // of parse_params
  ExprId value;             // of parse_value

  const Expr& operator[](ExprId id) const { return exprs[id.index]; }
  std::span<const ExprId> operator[](Run<ExprId> run) const { return view(items, run); }
  std::span<const Arg> operator[](Run<Arg> run) const { return view(args, run); }
  std::span<const Name> operator[](Run<Name> run) const { return view(names, run); }
  std::span<const Param> operator[](Run<Param> run) const { return view(params_pool, run); }
  std::span<const Type> operator[](Run<Type> run) const { return view(types, run); }
  std::span<const Stage> operator[](Run<Stage> run) const { return view(stages, run); }
  std::span<const Pipe> operator[](Run<Pipe> run) const { return view(pipes, run); }
  std::span<const Stmt> operator[](Run<Stmt> run) const { return view(stmts, run); }
  std::span<const Setting> operator[](Run<Setting> run) const { return view(settings, run); }

  const Number& number(ExprId id) const { return numbers[exprs[id.index].literal]; }     // of a kNumber
  const std::string& text(ExprId id) const { return strings[exprs[id.index].literal]; }  // of a kString, decoded

  // The pools; the parser fills them, others read through the operators above.
  std::vector<Expr> exprs;
  std::vector<Number> numbers;
  std::vector<std::string> strings;
  std::vector<ExprId> items;
  std::vector<Arg> args;
  std::vector<Name> names;
  std::vector<Param> params_pool;
  std::vector<Type> types;
  std::vector<Stage> stages;
  std::vector<Pipe> pipes;
  std::vector<Stmt> stmts;
  std::vector<Setting> settings;

 private:
  template <typename T>
  static std::span<const T> view(const std::vector<T>& pool, Run<T> run) {
    return std::span<const T>(pool).subspan(run.first, run.count);
  }
};

// "a.b.c" of a path of names.
std::string join_path(std::span<const Name> path);

}  // namespace xrun::lang
