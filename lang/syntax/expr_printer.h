// Prints expressions, types and pipelines of the syntax tree, appending to a text.
#pragma once

#include <string>
#include <string_view>

#include "lang/syntax/syntax.h"

namespace xrun::lang {

class ExprPrinter {
 public:
  ExprPrinter(const Ast& ast, std::string& out) : ast_(ast), out_(out) {}

  // Appends texts, names and nodes of the tree in the order given: put("(", e.lhs, " .. ", e.rhs, ")").
  template <class... Parts>
  void put(const Parts&... parts) {
    (one(parts), ...);
  }

 protected:
  void one(std::string_view text) { out_ += text; }
  void one(const Name& name) { out_ += name.text; }
  void one(ExprId id);
  void one(const Type& type);
  void one(const Arg& arg);
  void one(const Param& param);
  void one(const Stage& stage);
  void one(Run<Param> params);
  void one(Run<Stage> stages) { list(stages, " -> "); }
  void one(Run<ExprId> items) { list(items, ", "); }

  template <class T>
  void list(Run<T> run, std::string_view between) {
    for (uint32_t i = 0; i < run.count; ++i) {
      put(i == 0 ? std::string_view() : between, ast_[run][i]);
    }
  }

  const Ast& ast_;
  std::string& out_;

 private:
  void number(const Number& n);
  void string(const std::string& text);
  void operand(ExprId id);
};

}  // namespace xrun::lang
