// Settings of `data train cluster schedule run`: which exist, and the written ones of a declaration as a tree into
// which --set has been merged.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/diagnostic.h"
#include "lang/syntax/loader.h"
#include "lang/syntax/syntax.h"

namespace xrun::lang {

// One row of the table of settings. A "*" stands for a name of the user's.
struct SettingInfo {
  DeclKind kind = DeclKind::kError;
  std::string_view key;
  std::string_view type;
  std::string_view fallback;  // the default as written; "required" where there is none
  std::string_view doc;
};
std::span<const SettingInfo> all_settings();
bool is_setting(DeclKind kind, std::string_view key);  // of the first level

// `a.b = value` and `a { b = value }` are the same tree.
struct SettingNode {
  std::string key;
  Span key_span;
  Span span;
  const Ast* ast = nullptr;  // of the value; it may come from the command line
  ExprId value;              // not valid(): a group
  std::vector<SettingNode> children;

  bool has_value() const { return value.valid(); }
  const SettingNode* find(std::string_view name) const;
};

struct Settings {
  SettingNode root;
  std::vector<SettingNode> sources;  // source NAME = value
  bool has_error = false;            // one could not be read: what seems to be missing may be that one
};

// Reads the settings of a declaration; a setting that is given twice is XG0211.
Settings read_settings(const SourceFile& file, const Decl& decl, Diagnostics& diagnostics);

// Puts a value from the command line where `path` ("shard.id.over") leads, in the place of what is there. A path
// through something that has a value is XG0210: nobody would read what lies below it.
void override_setting(Settings& settings, std::string_view path, const Ast& ast, ExprId value,
                      Diagnostics& diagnostics);

// "backbone.stem" of a name, a chain of fields or a string; empty for another expression.
std::string path_text(const Ast& ast, ExprId id);

}  // namespace xrun::lang
