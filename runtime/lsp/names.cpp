#include "runtime/lsp/names.h"

#include <algorithm>
#include <map>
#include <utility>

namespace xrun::lsp {
namespace {

using lang::Ast;
using lang::Decl;
using lang::DeclKind;
using lang::DeclRef;
using lang::Expr;
using lang::ExprId;
using lang::ExprKind;
using lang::Name;
using lang::SourceFile;
using lang::Stage;
using lang::StageKind;
using lang::Stmt;
using lang::StmtKind;

struct Target {
  NameKind kind = NameKind::kUnknown;
  Span definition;
  const Decl* decl = nullptr;
  const SourceFile* file = nullptr;  // of `decl`
};
using Names = std::map<std::string_view, Target>;

NameKind kind_of(const Decl& decl) {
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

class Walker {
 public:
  Walker(const SourceFile& file, const Surroundings& around) : file_(file), ast_(file.ast), around_(around) {}

  std::vector<Occurrence> run() {
    for (const DeclRef& model : file_.all(DeclKind::kModel)) {
      model_names(model, outside_);
    }
    for (const DeclRef& data : file_.all(DeclKind::kData)) {
      data_names(data);
    }
    for (const Decl& decl : ast_.decls) {
      declaration(decl);
    }
    std::ranges::sort(found_, {}, [](const Occurrence& one) { return one.at.begin; });
    // A setting such as `id = ...` may be met twice.
    found_.erase(std::unique(found_.begin(), found_.end(),
                             [](const Occurrence& a, const Occurrence& b) { return b.at.begin < a.at.end; }),
                 found_.end());
    return std::move(found_);
  }

 private:
  // ---- scopes
  class Level {
   public:
    explicit Level(Walker& walker) : walker_(walker) { walker_.scopes_.emplace_back(); }
    ~Level() { walker_.scopes_.pop_back(); }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Walker& walker_;
  };

  void add(const Name& name, const Target& target) {
    if (name && name.span.file == file_.file) {
      found_.push_back({name.span, target.kind, target.definition, target.decl});
    }
  }

  void declare(const Name& name, NameKind kind) {
    add(name, {kind, name.span, decl_, &file_});
    if (name && !scopes_.empty()) {
      scopes_.back().try_emplace(name.text, Target{kind, name.span, decl_, &file_});
    }
  }

  Target find_local(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->find(name); found != scope->end()) {
        return found->second;
      }
    }
    return {};
  }

  // Names of a model as other declarations see them.
  void model_names(const DeclRef& model, Names& into) const {
    const Ast& ast = model.file->ast;
    for (const Stmt& stmt : ast[model.decl->body]) {
      for (const Name& name : stmt.kind == StmtKind::kOutput ? std::span<const Name>() : ast[stmt.names]) {
        into.try_emplace(name.text, Target{kind_of(stmt.kind), name.span, model.decl, model.file});
      }
    }
  }

  void data_names(const DeclRef& data) {
    const Ast& ast = data.file->ast;
    for (const lang::Setting& setting : ast[data.decl->settings]) {
      if (setting.kind == lang::SettingKind::kSource) {
        sources_.try_emplace(setting.name.text, Target{NameKind::kSource, setting.name.span, data.decl, data.file});
      } else if (setting.kind == lang::SettingKind::kValue && setting.path.count == 1) {
        const Name& name = ast[setting.path][0];
        outside_.try_emplace(name.text, Target{NameKind::kField, name.span, data.decl, data.file});
      }
    }
  }

  // A name that is called or read: the nearest declaration, else what the language has.
  Target find(std::string_view name) const {
    if (const Target local = find_local(name); local.kind != NameKind::kUnknown) {
      return local;
    }
    if (name == "N") {
      return {NameKind::kDimension, {}, nullptr, nullptr};  // the batch
    }
    if (lang::has_settings(decl_->kind)) {
      for (const Names* names : {&sources_, &outside_}) {
        if (const auto found = names->find(name); found != names->end()) {
          return found->second;
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
      const SourceFile* library = around_.library(file);
      if (const DeclRef found = library != nullptr ? library->find(name) : DeclRef()) {
        return target_of(found);
      }
    }
    return {};
  }

  // ---- declarations
  void declaration(const Decl& decl) {
    decl_ = &decl;
    switch (decl.kind) {
      case DeclKind::kImport:
        add(decl.name, {NameKind::kImport, decl.name.span, &decl, &file_});
        return;
      case DeclKind::kFrom:
        for (const Name& name : ast_[decl.names]) {
          const auto used = file_.used.find(name.text);
          add(name, used == file_.used.end() ? Target() : target_of(used->second));
        }
        return;
      default:
        break;
    }
    add(decl.name, {kind_of(decl), decl.name.span, &decl, &file_});
    if (decl.base) {
      add(decl.base, target_of(file_.find(decl.kind, decl.base.text)));
    }
    add(decl.type_name, {NameKind::kType, {}, nullptr, nullptr});
    const Level level(*this);
    for (const lang::Param& param : ast_[decl.params]) {
      type(param.type, true);
      expression(param.value);
      declare(param.name, NameKind::kParameter);
    }
    expression(decl.value);
    expression(decl.range);
    for (const Stmt& stmt : ast_[decl.body]) {
      statement(stmt);
    }
    for (const lang::Type& result : ast_[decl.results]) {
      type(result, false);
    }
    for (const lang::Setting& one : ast_[decl.settings]) {
      setting(one, {});
    }
  }

  // `declares`: a name that nothing declares is a new dimension variable.
  void type(const lang::Type& type, bool declares) {
    add(type.name, {NameKind::kType, {}, nullptr, nullptr});
    dimension(type.argument, declares);
    for (const ExprId dim : ast_[type.dims]) {
      dimension(dim, declares);
    }
  }

  void dimension(ExprId id, bool declares) {
    const Expr* expr = id.valid() ? &ast_[id] : nullptr;
    const bool is_new = expr != nullptr && declares && expr->kind == ExprKind::kName && expr->name.text != "N" &&
                        find(expr->name.text).kind == NameKind::kUnknown;
    if (is_new) {
      declare(expr->name, NameKind::kDimension);
    } else {
      expression(id);
    }
  }

  void statement(const Stmt& stmt) {
    type(stmt.type, false);
    expression(stmt.value);
    for (const Name& name : ast_[stmt.names]) {
      if (stmt.kind == StmtKind::kOutput) {
        add(name, find_local(name.text));
      } else if (const Target known = find_local(name.text);
                 decl_->kind == DeclKind::kOptimizer && known.kind == NameKind::kParam) {
        add(name, known);  // the new value of a state
      } else if (name.text != "_") {
        declare(name, kind_of(stmt.kind));
      }
    }
  }

  // ---- settings
  // `group`: the first word of the group that contains it.
  void setting(const lang::Setting& setting, std::string_view group) {
    const auto path = ast_[setting.path];
    const bool takes_labels = group == "groups" || group == "pin";
    for (const Name& name : path) {
      const bool is_first = &name == &path[0];
      Target target{NameKind::kSetting, {}, nullptr, nullptr};
      if (takes_labels) {
        target = tensor_scope(name.text);
      } else if (decl_->kind == DeclKind::kData && is_first && group.empty()) {
        const auto bound = outside_.find(name.text);
        target = bound != outside_.end() ? bound->second : target;
      }
      add(name, target);
    }
    if (setting.kind == lang::SettingKind::kSource) {
      add(setting.name, {NameKind::kSource, setting.name.span, decl_, &file_});
    } else {
      add(setting.name, tensor_scope(setting.name.text));
    }
    if (decl_->kind == DeclKind::kRun && setting.value.valid() && path.size() == 1) {
      part_of_run(path[0].text, setting.value);
    } else {
      expression(setting.value);
    }
    for (const lang::Setting& inner : ast_[setting.settings]) {
      this->setting(inner, path.empty() || takes_labels ? group : path[0].text);
    }
  }

  // model = NAME
  void part_of_run(std::string_view key, ExprId value) {
    const Expr& expr = ast_[value];
    const DeclKind kind = lang::kind_of(key);
    if (expr.kind == ExprKind::kName && lang::has_own_names(kind)) {
      add(expr.name, target_of(file_.find(kind, expr.name.text)));
    } else {
      expression(value);
    }
  }

  // A part of a tensor's name: a label of this file, a head, a parameter.
  Target tensor_scope(std::string_view name) const {
    const auto label = labels_.find(name);
    const auto known = outside_.find(name);
    return label != labels_.end() ? label->second
           : known != outside_.end() && known->second.kind == NameKind::kHead
               ? known->second
               : Target{NameKind::kSetting, {}, nullptr, nullptr};
  }

  // ---- expressions
  void expression(ExprId id) {
    if (!id.valid()) {
      return;
    }
    const Expr& expr = ast_[id];
    switch (expr.kind) {
      case ExprKind::kName:
        add(expr.name, find(expr.name.text));
        return;
      case ExprKind::kField:
        field(expr);
        return;
      case ExprKind::kCall: {
        expression(expr.lhs);
        const Expr& callee = ast_[expr.lhs];
        arguments(expr.args, callee.kind == ExprKind::kName    ? find(callee.name.text)
                             : callee.kind == ExprKind::kField ? member(callee)
                                                               : Target());
        return;
      }
      case ExprKind::kPipe:
        expression(expr.lhs);
        stages(expr.stages);
        return;
      default:
        expression(expr.condition);
        expression(expr.lhs);
        expression(expr.rhs);
        for (const ExprId item : ast_[expr.items]) {
          expression(item);
        }
    }
  }

  // What `a.b` names: a declaration of an imported file, or a binding of a model.
  Target member(const Expr& expr) const {
    const Expr& lhs = ast_[expr.lhs];
    if (lhs.kind != ExprKind::kName) {
      return {};
    }
    return member(lhs.name.text, expr.name.text);
  }
  Target member(std::string_view of, std::string_view name) const {
    if (const auto module = file_.modules.find(of); module != file_.modules.end()) {
      return target_of(module->second->find(name));
    }
    Names names;
    if (const DeclRef model = file_.find(DeclKind::kModel, of)) {
      model_names(model, names);
    }
    const auto found = names.find(name);
    return found == names.end() ? Target() : found->second;
  }

  void field(const Expr& expr) {
    const Expr& lhs = ast_[expr.lhs];
    if (lhs.kind == ExprKind::kName && file_.modules.contains(lhs.name.text)) {
      module_name(lhs.name);
    } else {
      expression(expr.lhs);
    }
    add(expr.name, member(expr));
  }

  void module_name(const Name& name) {
    for (const Decl& decl : ast_.decls) {
      if (decl.kind == DeclKind::kImport && decl.name.text == name.text) {
        add(name, {NameKind::kImport, decl.name.span, &decl, &file_});
        return;
      }
    }
    add(name, {NameKind::kImport, {}, nullptr, nullptr});
  }

  void arguments(lang::Run<lang::Arg> args, const Target& callee) {
    for (const lang::Arg& arg : ast_[args]) {
      Target target{NameKind::kArgument, {}, nullptr, nullptr};
      if (callee.decl != nullptr && callee.file != nullptr) {
        for (const lang::Param& param : callee.file->ast[callee.decl->params]) {
          if (param.name.text == arg.name.text) {
            target = {NameKind::kParameter, param.name.span, callee.decl, callee.file};
          }
        }
      }
      add(arg.name, target);
      expression(arg.value);
    }
  }

  void stages(lang::Run<Stage> run) {
    for (const Stage& stage : ast_[run]) {
      if (stage.kind == StageKind::kCall) {
        const auto path = ast_[stage.path];
        Target callee;
        if (path.size() == 2) {
          module_name(path[0]);
          callee = member(path[0].text, path[1].text);
          add(path[1], callee);
        } else if (path.size() == 1) {
          callee = find(path[0].text);
          add(path[0], callee);
        }
        arguments(stage.args, callee);
      } else {
        expression(stage.value);
        const Level level(*this);
        declare(stage.index, NameKind::kBinding);
        for (const lang::Pipe& pipe : ast_[stage.pipes]) {
          stages(pipe.stages);
        }
      }
      if (stage.label) {
        const Target label{NameKind::kLabel, stage.label.span, decl_, &file_};
        add(stage.label, label);
        labels_.try_emplace(stage.label.text, label);
      }
    }
  }

  const SourceFile& file_;
  const Ast& ast_;
  const Surroundings& around_;
  const Decl* decl_ = nullptr;
  std::vector<Names> scopes_;
  Names outside_;  // of models and data, as `train` sees them
  Names sources_;
  Names labels_;
  std::vector<Occurrence> found_;
};

}  // namespace

std::vector<Occurrence> find_names(const SourceFile& file, const Surroundings& surroundings) {
  return Walker(file, surroundings).run();
}

const Occurrence* name_at(const std::vector<Occurrence>& names, uint32_t offset) {
  const auto after = std::ranges::upper_bound(names, offset, {}, [](const Occurrence& one) { return one.at.begin; });
  return after != names.begin() && offset <= std::prev(after)->at.end ? &*std::prev(after) : nullptr;
}

}  // namespace xrun::lsp
