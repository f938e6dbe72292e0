// The written settings of a declaration as a tree into which --set has been merged; which ones exist is in
// setting_def.h.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/diagnostic.h"
#include "lang/syntax/loader.h"
#include "lang/syntax/syntax.h"

namespace xrun::lang {

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
  bool has_error = false;            // one could not be read; a missing setting may be that one
};

// Reads the settings of a declaration; a setting that is given twice is XG0211.
Settings read_settings(const SourceFile& file, const Decl& decl, Diagnostics& diagnostics);

// Puts a value from the command line where `path` ("shard.id.over") leads, in the place of what is there. A path
// through a setting that has a value is XG0210: values below it would not be read.
void override_setting(Settings& settings, std::string_view path, const Ast& ast, ExprId value,
                      Diagnostics& diagnostics);

// Of the value; of the key where it is a group.
Span value_span(const SettingNode& node);
// The bare name, `none` or `auto` that a value is; empty for another expression.
std::string symbol(const SettingNode& node);
// The same, or the name of what is called.
std::string word(const SettingNode& node);
bool is_auto(const SettingNode& node);
// "backbone.stem" of a name, a chain of fields or a string; empty for another expression.
std::string path_text(const Ast& ast, ExprId id);

}  // namespace xrun::lang
