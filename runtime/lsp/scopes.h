// Finds the meaning of a name at a place of a file: the scopes of bodies, and the declarations of models, data, imports
// and the library (docs/reference/language.md, "Models and blocks").
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "runtime/lsp/names.h"

namespace xrun::lsp {

struct Target {
  NameKind kind = NameKind::kUnknown;
  Span definition;
  const lang::Decl* decl = nullptr;
  const lang::SourceFile* file = nullptr;  // the file of `decl`
};
using Targets = std::map<std::string_view, Target>;

NameKind kind_of(const lang::Decl& decl);
NameKind kind_of(lang::StmtKind kind);
Target target_of(const lang::DeclRef& ref);

// Tracks scopes while the declarations of a file are visited in order.
class Scopes {
 public:
  // Both arguments outlive it.
  Scopes(const lang::SourceFile& file, const Surroundings& around);

  // A level of names, which ends when the object is destroyed.
  class Level {
   public:
    explicit Level(Scopes& scopes) : scopes_(scopes) { scopes_.levels_.emplace_back(); }
    ~Level() { scopes_.levels_.pop_back(); }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Scopes& scopes_;
  };

  void enter(const lang::Decl& decl) { decl_ = &decl; }
  void declare(const lang::Name& name, const Target& target);
  void add_label(const lang::Name& name, const Target& target) { labels_.try_emplace(name.text, target); }

  // The target of a name that is called or read: the nearest declaration, else the language's own. This function and
  // the others below return an unknown target if nothing has the name.
  Target find(std::string_view name) const;
  Target find_local(std::string_view name) const;
  // The target of a name of a model or of the data, as it is visible in `train` and `data`.
  Target find_outside(std::string_view name) const;
  // The target of `a.b`: a declaration of an imported file, or a binding of a model.
  Target member(const lang::Ast& ast, const lang::Expr& expr) const;
  Target member(std::string_view of, std::string_view name) const;
  // The target of a part of a tensor's name: a label that was already visited, or a head; otherwise a setting.
  Target tensor_scope(std::string_view name) const;

 private:
  static void add_model(const lang::DeclRef& model, Targets& into);
  void add_data(const lang::DeclRef& data);

  const lang::SourceFile& file_;
  const Surroundings& around_;
  const lang::Decl* decl_ = nullptr;
  std::vector<Targets> levels_;
  Targets outside_;
  Targets sources_;
  Targets labels_;
};

}  // namespace xrun::lsp
