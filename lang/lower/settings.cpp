#include "lang/lower/settings.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <utility>

#include "lang/text/faults.h"

namespace xrun::lang {
namespace {

// The child of `node` with this key; it is added if it does not exist.
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
      fault("XG0211", again.key_span, {"`{}` is set twice", again.key}, "set again", {"leave one of the two out"})
          .also(before.key_span, "set here first"));
}

void read_moved_class(const SourceFile& file, const Setting& setting, SettingNode& into, Diagnostics& diagnostics) {
  const Ast& ast = file.ast;
  SettingNode node{.key = "moved " + path_text(ast, setting.value),
                   .key_span = ast[setting.value].span,
                   .span = setting.span,
                   .file = &file,
                   .ast = &ast,
                   .value = setting.value,
                   .to = setting.to};
  if (const SettingNode* before = into.find(node.key)) {
    report_twice(*before, node, diagnostics);
  } else {
    into.children.push_back(std::move(node));
  }
}

// Adds a source of `data` to `sources`. `sources` is null in groups, which cannot contain a source.
void read_source(const SourceFile& file, const Setting& setting, std::vector<SettingNode>* sources,
                 Diagnostics& diagnostics) {
  SettingNode node{.key = std::string(setting.name.text),
                   .key_span = setting.name.span,
                   .span = setting.span,
                   .file = &file,
                   .ast = &file.ast,
                   .value = setting.value};
  if (sources == nullptr) {
    diagnostics.add(fault("XG0210", setting.span, "a source is declared in `data`, not here",
                          "not a setting of this group", {"move the line to `data`"}));
    return;
  }
  const auto before = std::find_if(sources->begin(), sources->end(), [&](const auto& s) { return s.key == node.key; });
  if (before != sources->end()) {
    report_twice(*before, node, diagnostics);
  } else {
    sources->push_back(std::move(node));
  }
}

void read_group(const SourceFile& file, Run<Setting> run, SettingNode& into, std::vector<SettingNode>* sources,
                Diagnostics& diagnostics) {
  constexpr size_t kMostSettings = 1024;
  const Ast& ast = file.ast;
  for (const Setting& setting : ast[run]) {
    if (setting.kind == SettingKind::kError) {
      into.has_error = true;
      continue;
    }
    if (into.children.size() >= kMostSettings || (sources != nullptr && sources->size() >= kMostSettings)) {
      diagnostics.add(fault("XG0216", setting.span, {"a group holds at most {} settings", kMostSettings},
                            "one too many", {"leave some out: a setting of a prefix holds for everything below it"}));
      return;
    }
    if (setting.kind == SettingKind::kSource) {
      read_source(file, setting, sources, diagnostics);
      continue;
    }
    if (setting.kind == SettingKind::kMoved) {
      read_moved_class(file, setting, into, diagnostics);
      continue;
    }
    SettingNode* node = &into;
    const auto path = ast[setting.path];
    const SettingNode* closed = nullptr;  // a node that has a value; settings below it would not be read
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
      read_group(file, setting.settings, *node, nullptr, diagnostics);
      continue;
    }
    if (node->has_value() || !node->children.empty()) {
      report_twice(*node, {.key = node->key, .key_span = path.back().span}, diagnostics);
      continue;
    }
    node->file = &file;
    node->ast = &ast;
    node->value = setting.value;
    node->span = setting.span;
  }
}

// Overrides a setting among `nodes`: replaces the node with the key of `over`, or appends `over`. Two groups with one
// key are merged child by child.
void put_over(std::vector<SettingNode>& nodes, const SettingNode& over) {
  const auto at = std::ranges::find(nodes, over.key, &SettingNode::key);
  if (at == nodes.end()) {
    nodes.push_back(over);
  } else if (over.has_value() || at->has_value()) {
    *at = over;
  } else {
    at->key_span = over.key_span;
    at->span = over.span;
    for (const SettingNode& child : over.children) {
      put_over(at->children, child);
    }
  }
}

// The declaration that `decl` extends; empty if it does not exist or is of another kind.
DeclRef base_of(const DeclRef& decl) {
  return decl.decl->base ? decl.file->find(decl.decl->kind, decl.decl->base.text) : DeclRef{};
}

}  // namespace

const SettingNode* SettingNode::find(std::string_view name) const {
  const auto found = std::ranges::find(children, name, &SettingNode::key);
  return found == children.end() ? nullptr : &*found;
}

std::vector<DeclRef> lineage(const DeclRef& decl) {
  std::vector<DeclRef> all;
  for (DeclRef at = decl; at && std::ranges::find(all, at.decl, &DeclRef::decl) == all.end(); at = base_of(at)) {
    all.push_back(at);
  }
  return all;
}

void check_extends(const DeclRef& decl, Diagnostics& diagnostics) {
  const Name& base = decl.decl->base;
  const std::string_view keyword = keyword_of(decl.decl->kind);
  if (!base || decl.file->is_missing(base.text)) {
    return;  // the missing import was reported
  }
  const std::vector<DeclRef> all = lineage(decl);
  if (base_of(all.back()).decl == decl.decl) {
    const auto place = [](const DeclRef& one) { return std::pair(one.decl->span.file, one.decl->span.begin); };
    if (std::ranges::any_of(all, [&](const DeclRef& one) { return place(one) < place(decl); })) {
      return;  // each cycle is reported once
    }
    Diagnostic d =
        fault("XG0208", base.span,
              {"`{} {}` extends itself{}", keyword, decl.decl->name.text, all.size() > 1 ? " in a circle" : ""},
              all.size() > 1 ? "leads back to it" : "the same declaration",
              {all.size() > 1 ? "let one of them extend nothing, and write its settings out"
                              : "leave `extends` out, or name another declaration"});
    for (size_t i = 1; i < all.size(); ++i) {
      d.secondary.push_back({all[i].decl->base.span, "continues here"});
    }
    diagnostics.add(std::move(d));
    return;
  }
  if (all.size() > 1) {
    return;
  }
  std::vector<std::string> known;
  for (const DeclRef& other : decl.file->all(decl.decl->kind)) {
    if (other.decl != decl.decl && other.decl->name) {
      known.emplace_back(other.decl->name.text);
    }
  }
  DeclRef other = decl.file->find(base.text);
  for (DeclKind kind = DeclKind::kModel; has_own_names(kind); kind = next(kind)) {
    other = other ? other : decl.file->find(kind, base.text);
  }
  const Help help = known.empty() ? Help("leave `extends` out, or declare it: {} {} {{ ... }}", keyword, base.text)
                                  : Help("name one of {}", fmt::join(known, ", "));
  if (other) {
    diagnostics.add(fault("XG0220", base.span,
                          {"`{}` is a `{}`, and a `{}` extends only a `{}`", base.text, keyword_of(other.decl->kind),
                           keyword, keyword},
                          "of another kind", help)
                        .also(other.decl->name.span, "declared here"));
    return;
  }
  diagnostics.add(fault("XG0213", base.span, {"`{}` has no `{} {}`", decl.file->path, keyword, base.text},
                        "unknown name", did_you_mean(base.text, known, base.span, help)));
}

Settings read_own_settings(const DeclRef& ref, Diagnostics& diagnostics) {
  const Decl& decl = *ref.decl;
  Settings settings;
  settings.root.key = std::string(keyword_of(decl.kind));
  settings.root.key_span = decl.keyword;
  settings.root.span = decl.span;
  read_group(*ref.file, decl.settings, settings.root, decl.kind == DeclKind::kData ? &settings.sources : nullptr,
             diagnostics);
  const auto written = ref.file->ast[decl.settings];
  settings.has_error = decl.has_fault || std::any_of(written.begin(), written.end(), [](const Setting& setting) {
                         return setting.kind == SettingKind::kError;
                       });
  return settings;
}

Settings read_settings(const DeclRef& decl, Diagnostics& diagnostics) {
  const std::vector<DeclRef> all = lineage(decl);
  Settings settings = read_own_settings(all.back(), diagnostics);
  settings.has_error = settings.has_error || all.back().decl->base;  // the last one's base was not found
  for (size_t i = all.size() - 1; i-- > 0;) {
    Settings over = read_own_settings(all[i], diagnostics);
    // `epochs` and `steps` are two names of one setting.
    for (const auto& [one, other] : {std::pair("epochs", "steps"), std::pair("steps", "epochs")}) {
      if (decl.decl->kind == DeclKind::kTrain && over.root.find(one) != nullptr) {
        std::erase_if(settings.root.children, [other = other](const SettingNode& node) { return node.key == other; });
      }
    }
    for (const SettingNode& child : over.root.children) {
      put_over(settings.root.children, child);
    }
    for (const SettingNode& source : over.sources) {
      put_over(settings.sources, source);
    }
    settings.root.key_span = over.root.key_span;
    settings.root.span = over.root.span;
    settings.has_error = settings.has_error || over.has_error;
  }
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
  node->file = nullptr;
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
