// The syntax tree of one file as a value: the nodes are elements of the vectors of an Ast and refer to one another by
// Id and Run. Nothing is resolved here: names are text, and text that could not be parsed is an error node.
#pragma once

#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "lang/syntax/syntax_decl.h"
#include "lang/syntax/syntax_expr.h"
#include "lang/text/number.h"

namespace xrun::lang {

// The vectors that hold the elements of runs, one vector for each type.
using Pools =
    std::tuple<std::vector<ExprId>, std::vector<Arg>, std::vector<Name>, std::vector<Param>, std::vector<Type>,
               std::vector<Stage>, std::vector<Pipe>, std::vector<Stmt>, std::vector<Setting>>;

// The tree; it does not change after parsing. The spans that it returns are valid as long as the Ast.
class Ast {
 public:
  int32_t file = -1;
  int edition = 0;  // number after `xgraph`; 0 if missing or another edition (reported)
  std::string doc;  // the first ## lines that a blank line follows, after `xgraph 1` and before all declarations
  std::vector<Decl> decls;  // in source order
  Run<Param> params;        // result of parse_params
  ExprId value;             // result of parse_value

  const Expr& operator[](ExprId id) const { return exprs[id.index]; }
  template <class T>
  std::span<const T> operator[](Run<T> run) const {
    return std::span<const T>(pool<T>()).subspan(run.first, run.count);
  }

  const Number& number(ExprId id) const { return numbers[exprs[id.index].literal]; }     // REQUIRES: a kNumber
  const std::string& text(ExprId id) const { return strings[exprs[id.index].literal]; }  // REQUIRES: a kString; decoded

  // The pools. Only the parser writes them; other code reads them with the operators above.
  std::vector<Expr> exprs;
  std::vector<Number> numbers;
  std::vector<std::string> strings;
  template <class T>
  std::vector<T>& pool() {
    return std::get<std::vector<T>>(pools_);
  }
  template <class T>
  const std::vector<T>& pool() const {
    return std::get<std::vector<T>>(pools_);
  }

 private:
  Pools pools_;
};

// The names of a path with dots between them: "a.b.c".
std::string join_path(std::span<const Name> path);

}  // namespace xrun::lang
