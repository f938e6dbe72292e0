// Visits the syntax tree once, in the order of the text, with the scopes that are open at each place (scopes.h). A name
// that is declared is added to the current scope; a name that is used gets the target that the scopes find for it.
// Types are not checked and errors are ignored, so that names are also found while a file is being edited. At the end
// the names are sorted by place, and names that were visited twice are dropped.
// Tests: tests/lsp/features_test.cpp
#include "runtime/lsp/names.h"

#include <algorithm>
#include <utility>

#include "runtime/lsp/scopes.h"

namespace xrun::lsp {
namespace {

using lang::Ast;
using lang::Decl;
using lang::DeclKind;
using lang::Expr;
using lang::ExprId;
using lang::ExprKind;
using lang::Name;
using lang::SourceFile;
using lang::Stage;
using lang::StageKind;
using lang::Stmt;
using lang::StmtKind;

class Walker {
 public:
  Walker(const SourceFile& file, const Surroundings& around) : file_(file), ast_(file.ast), scopes_(file, around) {}

  std::vector<Occurrence> run() {
    for (const Decl& decl : ast_.decls) {
      declaration(decl);
    }
    std::ranges::sort(found_, {}, [](const Occurrence& one) { return one.at.begin; });
    // A setting such as `id = ...` may be visited twice.
    found_.erase(std::unique(found_.begin(), found_.end(),
                             [](const Occurrence& a, const Occurrence& b) { return b.at.begin < a.at.end; }),
                 found_.end());
    return std::move(found_);
  }

 private:
  void add(const Name& name, const Target& target) {
    if (name && name.span.file == file_.file) {
      found_.push_back({name.span, target.kind, target.definition, target.decl});
    }
  }

  void declare(const Name& name, NameKind kind) {
    add(name, {kind, name.span, decl_, &file_});
    scopes_.declare(name, {kind, name.span, decl_, &file_});
  }

  // ---- declarations
  void declaration(const Decl& decl) {
    decl_ = &decl;
    scopes_.enter(decl);
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
    const Scopes::Level level(scopes_);
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

  // `declares`: a capital letter that is not a local name declares a dimension variable.
  void type(const lang::Type& type, bool declares) {
    add(type.name, {NameKind::kType, {}, nullptr, nullptr});
    dimension(type.argument, declares);
    for (const ExprId dim : ast_[type.dims]) {
      dimension(dim, declares);
    }
  }

  void dimension(ExprId id, bool declares) {
    const Expr* expr = id.valid() ? &ast_[id] : nullptr;
    const bool is_name = expr != nullptr && expr->kind == ExprKind::kName && expr->name && expr->name.text != "N";
    const bool is_new = declares && is_name && expr->name.text[0] >= 'A' && expr->name.text[0] <= 'Z' &&
                        scopes_.find_local(expr->name.text).kind == NameKind::kUnknown;
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
        add(name, scopes_.find_local(name.text));
      } else if (const Target known = scopes_.find_local(name.text);
                 decl_->kind == DeclKind::kOptimizer && known.kind == NameKind::kParam) {
        add(name, known);  // the new value of a state
      } else if (name.text != "_") {
        declare(name, kind_of(stmt.kind));
      }
    }
  }

  // ---- settings
  // `group`: the first word of the group that contains the setting.
  void setting(const lang::Setting& setting, std::string_view group) {
    const auto path = ast_[setting.path];
    const bool takes_labels = group == "groups" || group == "pin";
    for (const Name& name : path) {
      const bool is_first = &name == &path[0];
      Target target{NameKind::kSetting, {}, nullptr, nullptr};
      if (takes_labels) {
        target = scopes_.tensor_scope(name.text);
      } else if (decl_->kind == DeclKind::kData && is_first && group.empty()) {
        const Target bound = scopes_.find_outside(name.text);
        target = bound.kind != NameKind::kUnknown ? bound : target;
      }
      add(name, target);
    }
    if (setting.kind == lang::SettingKind::kSource) {
      add(setting.name, {NameKind::kSource, setting.name.span, decl_, &file_});
    } else {
      add(setting.name, scopes_.tensor_scope(setting.name.text));
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

  // ---- expressions
  void expression(ExprId id) {
    if (!id.valid()) {
      return;
    }
    const Expr& expr = ast_[id];
    switch (expr.kind) {
      case ExprKind::kName:
        add(expr.name, scopes_.find(expr.name.text));
        return;
      case ExprKind::kField:
        field(expr);
        return;
      case ExprKind::kCall: {
        expression(expr.lhs);
        const Expr& callee = ast_[expr.lhs];
        arguments(expr.args, callee.kind == ExprKind::kName    ? scopes_.find(callee.name.text)
                             : callee.kind == ExprKind::kField ? scopes_.member(ast_, callee)
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

  void field(const Expr& expr) {
    const Expr& lhs = ast_[expr.lhs];
    if (lhs.kind == ExprKind::kName && file_.modules.contains(lhs.name.text)) {
      module_name(lhs.name);
    } else {
      expression(expr.lhs);
    }
    add(expr.name, scopes_.member(ast_, expr));
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
          callee = scopes_.member(path[0].text, path[1].text);
          add(path[1], callee);
        } else if (path.size() == 1) {
          callee = scopes_.find(path[0].text);
          add(path[0], callee);
        }
        arguments(stage.args, callee);
      } else {
        expression(stage.value);
        const Scopes::Level level(scopes_);
        declare(stage.index, NameKind::kBinding);
        for (const lang::Pipe& pipe : ast_[stage.pipes]) {
          stages(pipe.stages);
        }
      }
      if (stage.label) {
        const Target label{NameKind::kLabel, stage.label.span, decl_, &file_};
        add(stage.label, label);
        scopes_.add_label(stage.label, label);
      }
    }
  }

  const SourceFile& file_;
  const Ast& ast_;
  Scopes scopes_;
  const Decl* decl_ = nullptr;
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
