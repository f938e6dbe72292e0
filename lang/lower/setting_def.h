// A setting of `data train cluster schedule run` as one record: its key, type, bounds and default, the action that
// stores it, its value as text, and its lines of the math text. Lowering, suggestions, the math digest, `--emit
// checked`, `show --explicit`, `xrun explain` and the tables of docs/reference/calls_and_settings.md read the records,
// so a new setting is one more record (setting_def.cpp).
#pragma once

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"
#include "graph/settings/run_spec.h"
#include "lang/syntax/syntax_decl.h"

namespace xrun::lang {

class ModuleBuilder;
struct Scope;
struct SettingNode;

// A lowered setting: the module and run with its value, and its tensor group or shard if it is a setting of one.
struct Shown {
  const Module& module;
  const RunSpec& run;
  const GroupSpec* group = nullptr;
  const ShardHint* shard = nullptr;
};

struct SettingDef {
  using Action = void (ModuleBuilder::*)(const SettingNode& node, Scope& scope, const SettingDef& def);
  using Show = std::string (*)(const SettingDef& def, const Shown& shown);
  using Math = std::string (*)(const TrainSpec& train);

  // The two conversions of a setting's value. `store` checks the value in the text and stores it in the module; if it
  // is null, the builder reads the setting in another way. `show` returns the text of the stored value; if it is null,
  // the setting has no value of its own.
  struct Access {
    constexpr Access(Action from_text = nullptr, Show to_text = nullptr) : store(from_text), show(to_text) {}
    constexpr Access(std::nullptr_t, Show to_text = nullptr) : show(to_text) {}
    Action store = nullptr;
    Show show = nullptr;
  };

  DeclKind kind = DeclKind::kError;
  std::string_view group;     // the group that contains it, "checkpoint", "shard HEAD"; empty on the first level
  std::string_view key;       // "seed"; in capitals, "PATH", a name that the user chooses
  std::string_view type;      // "int"; for a choice its words and calls, "none, value(x: float)"
  std::string_view fallback;  // the default as in the text; "required" if there is none, empty for a name
  std::string_view doc;       // a short phrase
  Access access = {};
  double low = 0;  // bounds of a number or a size, both inclusive
  double high = HUGE_VAL;
  bool is_learned = false;   // learned weights depend on it, and the graph does not contain it already
  Math math = nullptr;       // its lines of the math text; null: its key and its value
  bool later = false;        // a value other than the default is rejected with XG0199
  std::string_view instead;  // the fix of XG0199
  std::string_view choices;  // words and calls, if `type` describes them in another way
  std::string_view example;  // a line for a required setting; for a group the title of a fix and its lines

  // These functions return copies with further fields.
  constexpr SettingDef learned(Math lines = nullptr) const;
  constexpr SettingDef not_yet(std::string_view fix) const;
  constexpr SettingDef of_choices(std::string_view words) const;
  constexpr SettingDef such_as(std::string_view text) const;

  bool is_name() const { return key[0] >= 'A' && key[0] <= 'Z'; }
  std::string path() const;                    // "checkpoint.every", "shard.HEAD.over"
  std::string text(const Shown& shown) const;  // its value; empty if it is not set and has no default
};

// All records. Records of `train` are in the order of the math text.
std::span<const SettingDef> all_settings();

// Returns null if no record has this key; records for names that the user chooses are not considered.
const SettingDef* find_setting(DeclKind kind, std::string_view group, std::string_view key);
// The record of a first-level key. REQUIRES: it exists.
const SettingDef& setting(DeclKind kind, std::string_view key);
// The keys that a group may contain, sorted.
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
  made.is_learned = true;
  made.math = lines;
  return made;
}

constexpr SettingDef SettingDef::not_yet(std::string_view fix) const {
  SettingDef made = *this;
  made.later = true;
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
