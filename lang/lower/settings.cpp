#include "lang/lower/settings.h"

#include <algorithm>

#include "lang/faults.h"

namespace xrun::lang {
namespace {

// The child called `key`; adds one if there is none.
SettingNode& child_of(SettingNode& node, std::string_view key, Span key_span, Span span) {
  for (SettingNode& child : node.children) {
    if (child.key == key) {
      return child;
    }
  }
  node.children.push_back({.key = std::string(key), .key_span = key_span, .span = span});
  return node.children.back();
}

std::string word_of(const Expr& expr) {
  return expr.kind == ExprKind::kName   ? std::string(expr.name.text)
         : expr.kind == ExprKind::kNone ? "none"
         : expr.kind == ExprKind::kAuto ? "auto"
                                        : "";
}

void report_twice(const SettingNode& before, const SettingNode& again, Diagnostics& diagnostics) {
  diagnostics.add(
      fault("XG0211", again.key_span, {"`{}` is set twice", again.key}, "set again", {"leave one of both out"})
          .also(before.key_span, "set here first"));
}

void read_group(const Ast& ast, Run<Setting> run, SettingNode& into, std::vector<SettingNode>* sources,
                Diagnostics& diagnostics) {
  constexpr size_t kMostSettings = 1024;
  for (const Setting& setting : ast[run]) {
    if (setting.kind == SettingKind::kError) {
      continue;
    }
    if (into.children.size() >= kMostSettings || (sources != nullptr && sources->size() >= kMostSettings)) {
      diagnostics.add(fault("XG0216", setting.span, {"a group holds at most {} settings", kMostSettings},
                            "one too many", {"leave some out: one for a prefix holds for all that lies below it"}));
      return;
    }
    if (setting.kind == SettingKind::kSource) {
      SettingNode node{.key = std::string(setting.name.text),
                       .key_span = setting.name.span,
                       .span = setting.span,
                       .ast = &ast,
                       .value = setting.value};
      if (sources == nullptr) {
        diagnostics.add(fault("XG0210", setting.span, "a source is declared in `data`, not here",
                              "not a setting of this group", {"move the line to `data`"}));
        continue;
      }
      const auto before =
          std::find_if(sources->begin(), sources->end(), [&](const auto& s) { return s.key == node.key; });
      if (before != sources->end()) {
        report_twice(*before, node, diagnostics);
      } else {
        sources->push_back(std::move(node));
      }
      continue;
    }
    SettingNode* node = &into;
    const auto path = ast[setting.path];
    const SettingNode* closed = nullptr;  // has a value, so settings below it would not be read
    for (const Name& part : path) {
      closed = node->has_value() ? node : closed;
      node = closed != nullptr ? node : &child_of(*node, part.text, part.span, setting.span);
    }
    if (closed != nullptr) {
      report_twice(*closed, {.key = closed->key, .key_span = path.front().span}, diagnostics);
      continue;
    }
    if (setting.kind == SettingKind::kGroup) {
      if (setting.name && !node->has_value()) {
        node = &child_of(*node, setting.name.text, setting.name.span, setting.span);
      }
      if (node->has_value()) {
        report_twice(*node, {.key = node->key, .key_span = path.back().span}, diagnostics);
        continue;
      }
      read_group(ast, setting.settings, *node, nullptr, diagnostics);
      continue;
    }
    if (node->has_value() || !node->children.empty()) {
      report_twice(*node, {.key = node->key, .key_span = path.back().span}, diagnostics);
      continue;
    }
    node->ast = &ast;
    node->value = setting.value;
    node->span = setting.span;
  }
}

}  // namespace

const SettingNode* SettingNode::find(std::string_view name) const {
  const auto found = std::ranges::find(children, name, &SettingNode::key);
  return found == children.end() ? nullptr : &*found;
}

Settings read_settings(const SourceFile& file, const Decl& decl, Diagnostics& diagnostics) {
  Settings settings;
  settings.root.key = std::string(keyword_of(decl.kind));
  settings.root.key_span = decl.keyword;
  settings.root.span = decl.span;
  read_group(file.ast, decl.settings, settings.root, decl.kind == DeclKind::kData ? &settings.sources : nullptr,
             diagnostics);
  const auto written = file.ast[decl.settings];
  settings.has_error = decl.has_fault || std::any_of(written.begin(), written.end(), [](const Setting& setting) {
                         return setting.kind == SettingKind::kError;
                       });
  return settings;
}

void override_setting(Settings& settings, std::string_view path, const Ast& ast, ExprId value,
                      Diagnostics& diagnostics) {
  const Span at = ast[value].span;
  SettingNode* node = &settings.root;
  for (std::string_view rest = path; !rest.empty();) {
    if (node->has_value()) {
      Diagnostic d =
          fault("XG0210", at, {"`{}` has a value, so there is no `{}.{}`", node->key, settings.root.key, path},
                "not a setting", {"set `{}` as a whole", node->key});
      if (node->span.valid() && node->span != at) {
        d.secondary.push_back({node->span, "the value"});
      }
      diagnostics.add(std::move(d));
      return;
    }
    const size_t dot = rest.find('.');
    node = &child_of(*node, rest.substr(0, dot), at, at);
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  }
  node->key_span = at;
  node->span = at;
  node->ast = &ast;
  node->value = value;
  node->children.clear();
}

Span value_span(const SettingNode& node) { return node.has_value() ? (*node.ast)[node.value].span : node.key_span; }

std::string symbol(const SettingNode& node) { return node.has_value() ? word_of((*node.ast)[node.value]) : ""; }

std::string word(const SettingNode& node) {
  const Expr* expr = node.has_value() ? &(*node.ast)[node.value] : nullptr;
  const bool is_call = expr != nullptr && expr->kind == ExprKind::kCall;
  return is_call ? word_of((*node.ast)[expr->lhs]) : symbol(node);
}

bool is_auto(const SettingNode& node) { return node.has_value() && (*node.ast)[node.value].kind == ExprKind::kAuto; }

std::string path_text(const Ast& ast, ExprId id) {
  if (!id.valid()) {
    return {};
  }
  const Expr& expr = ast[id];
  if (expr.kind == ExprKind::kName) {
    return std::string(expr.name.text);
  }
  if (expr.kind == ExprKind::kString) {
    return ast.text(id);
  }
  if (expr.kind == ExprKind::kField) {
    const std::string left = path_text(ast, expr.lhs);
    return left.empty() ? left : left + "." + std::string(expr.name.text);
  }
  return {};
}

}  // namespace xrun::lang
