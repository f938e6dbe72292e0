// A setting of `data train cluster schedule run` as one record: its key, type, bounds and default, the action that
// stores it, and its lines of the math text. Lowering, suggestions, the math digest and the tables of docs/reference.md
// read the records, so a new setting is one more record (setting_def.cpp).
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
  std::string_view group;     // the group that contains it, "checkpoint", "shard HEAD"; empty on the first level
  std::string_view key;       // "seed"; capitals, "PATH", stand for a name that the user chooses
  std::string_view type;      // "int"; for a choice its words and calls, "none, value(x: float)"
  std::string_view fallback;  // the default as written; "required" where there is none
  std::string_view doc;       // half a sentence
  Action action = nullptr;    // checks and stores a value; null: the builder reads it apart from the others
  double low = 0;             // bounds of a number or a size; both are allowed values
  double high = HUGE_VAL;
  Math math = nullptr;       // null: learned weights do not depend on it, or the graph has it already
  bool later = false;        // a value other than the default is XG0199
  std::string_view what;     // its name in XG0199; empty: its path
  std::string_view instead;  // the fix of XG0199; empty: "leave it out"
  std::string_view choices;  // words and calls, where `type` describes them in another way
  std::string_view example;  // a line for a required setting; for a group the title of a fix and its lines

  // Copies with further fields.
  constexpr SettingDef learned(Math lines) const;
  constexpr SettingDef not_yet(std::string_view what_it_is = {}, std::string_view fix = {}) const;
  constexpr SettingDef of_choices(std::string_view words) const;
  constexpr SettingDef such_as(std::string_view text) const;

  bool is_name() const { return key[0] >= 'A' && key[0] <= 'Z'; }
  std::string path() const;  // "checkpoint.every", "shard.HEAD.over"
};

// All records. Those of `train` are in the order of the math text.
std::span<const SettingDef> all_settings();

// Null if no record has this key; records for names that the user chooses are not considered.
const SettingDef* find_setting(DeclKind kind, std::string_view group, std::string_view key);
// The record of a first-level key. REQUIRES: there is one.
const SettingDef& setting(DeclKind kind, std::string_view key);
// The keys that can be written in a group, sorted.
std::vector<std::string> setting_keys(DeclKind kind, std::string_view group);

// A choice of a setting: a word or a call.
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
