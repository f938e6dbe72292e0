// Tests: tests/lsp/features_test.cpp
#include "runtime/lsp/scopes.h"

#include <span>

namespace xrun::lsp {

using lang::DeclKind;
using lang::DeclRef;
using lang::StmtKind;

namespace {

Target found_in(const Targets& targets, std::string_view name) {
  const auto found = targets.find(name);
  return found == targets.end() ? Target() : found->second;
}

}  // namespace

NameKind kind_of(const lang::Decl& decl) {
  switch (decl.kind) {
    case DeclKind::kBlock:
      return NameKind::kBlock;
    case DeclKind::kFn:
      return NameKind::kFunction;
    case DeclKind::kPointwise:
      return NameKind::kPointwise;
    case DeclKind::kOptimizer:
      return NameKind::kOptimizer;
    case DeclKind::kModel:
      return NameKind::kModel;
    case DeclKind::kOption:
    case DeclKind::kLet:
      return NameKind::kConstant;
    default:
      return NameKind::kRunPart;
  }
}

NameKind kind_of(StmtKind kind) {
  return kind == StmtKind::kInput                               ? NameKind::kInput
         : kind == StmtKind::kHead                              ? NameKind::kHead
         : kind == StmtKind::kParam || kind == StmtKind::kState ? NameKind::kParam
                                                                : NameKind::kBinding;
}

Target target_of(const DeclRef& ref) {
  return ref ? Target{kind_of(*ref.decl), ref.decl->name.span, ref.decl, ref.file} : Target();
}

Scopes::Scopes(const lang::SourceFile& file, const Surroundings& around) : file_(file), around_(around) {
  for (const DeclRef& model : file.all(DeclKind::kModel)) {
    add_model(model, outside_);
  }
  for (const DeclRef& data : file.all(DeclKind::kData)) {
    add_data(data);
  }
}

void Scopes::add_model(const DeclRef& model, Targets& into) {
  const lang::Ast& ast = model.file->ast;
  for (const lang::Stmt& stmt : ast[model.decl->body]) {
    for (const lang::Name& name : stmt.kind == StmtKind::kOutput ? std::span<const lang::Name>() : ast[stmt.names]) {
      into.try_emplace(name.text, Target{kind_of(stmt.kind), name.span, model.decl, model.file});
    }
  }
}

void Scopes::add_data(const DeclRef& data) {
  const lang::Ast& ast = data.file->ast;
  for (const lang::Setting& setting : ast[data.decl->settings]) {
    if (setting.kind == lang::SettingKind::kSource) {
      sources_.try_emplace(setting.name.text, Target{NameKind::kSource, setting.name.span, data.decl, data.file});
    } else if (setting.kind == lang::SettingKind::kValue && setting.path.count == 1) {
      const lang::Name& name = ast[setting.path][0];
      outside_.try_emplace(name.text, Target{NameKind::kField, name.span, data.decl, data.file});
    }
  }
}

void Scopes::declare(const lang::Name& name, const Target& target) {
  if (name && !levels_.empty()) {
    levels_.back().try_emplace(name.text, target);
  }
}

Target Scopes::find_local(std::string_view name) const {
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    if (const auto found = level->find(name); found != level->end()) {
      return found->second;
    }
  }
  return {};
}

Target Scopes::find_outside(std::string_view name) const { return found_in(outside_, name); }

Target Scopes::find(std::string_view name) const {
  if (const Target local = find_local(name); local.kind != NameKind::kUnknown) {
    return local;
  }
  if (name == "N") {
    return {NameKind::kDimension, {}, nullptr, nullptr};  // the batch dimension
  }
  if (lang::has_settings(decl_->kind)) {
    for (const Targets* targets : {&sources_, &outside_}) {
      if (const Target found = found_in(*targets, name); found.kind != NameKind::kUnknown) {
        return found;
      }
    }
  }
  if (const DeclRef found = file_.find(name)) {
    return target_of(found);
  }
  if (const DeclRef model = file_.find(DeclKind::kModel, name); model && decl_->kind == DeclKind::kTest) {
    return target_of(model);
  }
  if (around_.is_operator(name)) {
    return {NameKind::kOperator, {}, nullptr, nullptr};
  }
  for (const char* file : {"std/pointwise", "std/optimizers"}) {
    const lang::SourceFile* library = around_.library(file);
    if (const DeclRef found = library != nullptr ? library->find(name) : DeclRef()) {
      return target_of(found);
    }
  }
  return {};
}

Target Scopes::member(const lang::Ast& ast, const lang::Expr& expr) const {
  const lang::Expr& of = ast[expr.lhs];
  return of.kind == lang::ExprKind::kName ? member(of.name.text, expr.name.text) : Target();
}

Target Scopes::member(std::string_view of, std::string_view name) const {
  if (const auto module = file_.modules.find(of); module != file_.modules.end()) {
    return target_of(module->second->find(name));
  }
  Targets targets;
  if (const DeclRef model = file_.find(DeclKind::kModel, of)) {
    add_model(model, targets);
  }
  return found_in(targets, name);
}

Target Scopes::tensor_scope(std::string_view name) const {
  const Target label = found_in(labels_, name);
  const Target known = found_in(outside_, name);
  return label.kind != NameKind::kUnknown ? label
         : known.kind == NameKind::kHead  ? known
                                          : Target{NameKind::kSetting, {}, nullptr, nullptr};
}

}  // namespace xrun::lsp
