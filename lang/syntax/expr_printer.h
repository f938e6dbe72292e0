// Expressions, types and pipelines of the syntax tree as text, appended to what is there.
#pragma once

#include <string>

#include "lang/syntax/syntax.h"

namespace xrun::lang {

class ExprPrinter {
 public:
  ExprPrinter(const Ast& ast, std::string& out) : ast_(ast), out_(out) {}

  void expr(ExprId id);
  void type(const Type& t);
  void params(Run<Param> run);

 protected:
  const Ast& ast_;
  std::string& out_;

 private:
  void number(const Number& n);
  void string(const std::string& text);
  void operand(ExprId id);
  void list(Run<ExprId> run);
  void args(Run<Arg> run);
  void stages(Run<Stage> run);
  void fragment(const Pipe& pipe);
  void stage(const Stage& s);
};

}  // namespace xrun::lang
