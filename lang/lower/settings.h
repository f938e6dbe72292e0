// The settings of a declaration as a tree. The declaration's own settings override those that it inherits from the
// declarations that it extends, and --set overrides both. The known settings are in setting_def.h.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/diagnostic.h"
#include "lang/syntax/loader.h"
#include "lang/syntax/syntax.h"

namespace xrun::lang {

// A setting or a group of settings. `a.b = value` and `a { b = value }` give equal trees.
struct SettingNode {
  std::string key;
  Span key_span;
  Span span;
  const SourceFile* file = nullptr;  // file of the setting, whose names its value sees; null: the command line
  const Ast* ast = nullptr;          // syntax tree of the value
  ExprId value;                      // the value; invalid for a group
  ExprId to;                         // new name of `moved value -> to`, whose key is "moved" and the old name
  bool has_error = false;            // group: a setting in it could not be read
  std::vector<SettingNode> children;

  bool has_value() const { return value.valid(); }
  const SettingNode* find(std::string_view name) const;
};

struct Settings {
  SettingNode root;
  std::vector<SettingNode> sources;  // settings of the form `source NAME = value`
  bool has_error = false;            // a setting could not be read; a missing setting may be that one
};

// The declaration itself, the declaration that it extends, and so on, until one extends nothing or is not found.
std::vector<DeclRef> lineage(const DeclRef& decl);
// Reports a declaration that extends an unknown name, a declaration of another kind, or itself.
void check_extends(const DeclRef& decl, Diagnostics& diagnostics);

// Reads the settings in a declaration; a repeated setting is rejected with XG0211.
Settings read_own_settings(const DeclRef& decl, Diagnostics& diagnostics);
// Reads the settings of a declaration and of those that it extends. A value of the declaration itself replaces the
// inherited value of the same key; in groups this applies to each key of the group.
Settings read_settings(const DeclRef& decl, Diagnostics& diagnostics);

// Sets `path` ("shard.id.over") to a value from the command line, which replaces any value or group there. A path
// through a setting that has a value is rejected with XG0210: values below it would not be read.
void override_setting(Settings& settings, std::string_view path, const Ast& ast, ExprId value,
                      Diagnostics& diagnostics);

// The span of the value, or of the key of a group.
Span value_span(const SettingNode& node);
// The text of a value that is a bare name, `none` or `auto`; empty for another expression.
std::string symbol(const SettingNode& node);
// The text of a bare name, `none` or `auto`, or the called name if the value is a call.
std::string word(const SettingNode& node);
// The path that a value consists of: "backbone.stem" for a name, a chain of fields or a string; empty for another
// expression.
std::string path_text(const Ast& ast, ExprId id);

}  // namespace xrun::lang
