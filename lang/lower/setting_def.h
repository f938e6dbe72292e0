// A setting of `data train cluster schedule run` as one record: how it is written, its type, bounds and default, what
// it sets, and its lines of the math text. Lowering, suggestions, the math digest and the tables of docs/reference.md
// are made from the records, so that a setting is added by adding one (setting_def.cpp).
#pragma once

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/specs.h"
#include "lang/syntax/syntax_decl.h"

namespace xrun::lang {

class ModuleBuilder;
struct Scope;
struct SettingNode;

struct SettingDef {
  using Action = void (ModuleBuilder::*)(const SettingNode& node, Scope& scope, const SettingDef& def);
  using Math = std::string (*)(const TrainSpec& train);

  DeclKind kind = DeclKind::kError;
  std::string_view group;     // the group that it stands in, "checkpoint", "shard HEAD"; empty on the first level
  std::string_view key;       // "seed"; in capitals, "PATH": a name of the user's
  std::string_view type;      // "int"; of a choice its words and calls, "none, value(x: float)"
  std::string_view fallback;  // the default as written; "required" where there is none
  std::string_view doc;       // half a sentence
  Action action = nullptr;    // checks and stores a value; null: `lower_train` reads it before the others
  double low = 0;             // of a number or a size; both bounds are allowed values
  double high = HUGE_VAL;
  Math math = nullptr;       // null: what is learned does not depend on it, or the graph says it already
  bool later = false;        // a value other than the default is XG0199
  std::string_view what;     // what XG0199 calls it; empty: its path
  std::string_view instead;  // the fix of XG0199; empty: leave it out
  std::string_view choices;  // words and calls where `type` says them in another way
  std::string_view example;  // of a required setting; of a group the lines of a fix, below the title of the fix

  // Copies with further fields.
  constexpr SettingDef learned(Math lines) const;
  constexpr SettingDef not_yet(std::string_view what_it_is = {}, std::string_view fix = {}) const;
  constexpr SettingDef of_choices(std::string_view words) const;
  constexpr SettingDef such_as(std::string_view text) const;

  bool is_name() const { return key[0] >= 'A' && key[0] <= 'Z'; }
  std::string path() const;  // "checkpoint.every", "shard.HEAD.over"
};

// All records. Those of `train` stand in the order of the math text.
std::span<const SettingDef> all_settings();

// Null where there is none of this key; names of the user's are not looked at.
const SettingDef* find_setting(DeclKind kind, std::string_view group, std::string_view key);
// The same for a key that is one; an unknown key is a broken invariant.
const SettingDef& setting(DeclKind kind, std::string_view key);
// The keys that can be written in a group, sorted.
std::vector<std::string> setting_keys(DeclKind kind, std::string_view group);

// One of the words of a setting, or one of the calls.
struct SettingChoice {
  std::string_view word;
  std::string_view signature;  // "(x: float)"; empty: a word without arguments
  int index = 0;
};
std::vector<SettingChoice> choices_of(const SettingDef& def);

constexpr SettingDef SettingDef::learned(Math lines) const {
  SettingDef made = *this;
  made.math = lines;
  return made;
}

constexpr SettingDef SettingDef::not_yet(std::string_view what_it_is, std::string_view fix) const {
  SettingDef made = *this;
  made.later = true;
  made.what = what_it_is;
  made.instead = fix;
  return made;
}

constexpr SettingDef SettingDef::of_choices(std::string_view words) const {
  SettingDef made = *this;
  made.choices = words;
  return made;
}

constexpr SettingDef SettingDef::such_as(std::string_view text) const {
  SettingDef made = *this;
  made.example = text;
  return made;
}

}  // namespace xrun::lang
