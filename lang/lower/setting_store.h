// Actions of setting records that many settings share: templates that check a value of the text and store it in a
// member of a spec. Only setting_def.cpp and setting_show.h include this header.
#pragma once

#include <fmt/format.h>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "lang/lower/module_builder.h"
#include "lang/lower/setting_def.h"

namespace xrun::lang {

// The type of the member of a spec, without std::optional and Hint.
template <class T>
struct Held {
  using Type = T;
};
template <class T>
struct Held<std::optional<T>> : Held<T> {};
template <class T>
struct Held<Hint<T>> : Held<T> {};

template <class T>
constexpr bool kIsHint = false;
template <class T>
constexpr bool kIsHint<std::optional<Hint<T>>> = true;

// The type of the spec that has the member.
template <class Spec, class T>
Spec& ModuleBuilder::spec_of(T Spec::*) {
  if constexpr (std::is_same_v<Spec, TrainSpec>) {
    return module_.train;
  } else if constexpr (std::is_same_v<Spec, DataSpec>) {
    return module_.data;
  } else if constexpr (std::is_same_v<Spec, ClusterSpec>) {
    return module_.cluster;
  } else if constexpr (std::is_same_v<Spec, ScheduleSpec>) {
    return module_.schedule;
  } else if constexpr (std::is_same_v<Spec, ShardHint>) {
    return module_.schedule.shards.back();
  } else {
    return group_;
  }
}

// Reads a value of type T. The record's type determines the unit.
template <class T>
std::optional<T> ModuleBuilder::read(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if constexpr (std::is_same_v<T, bool>) {
    return flag(node, scope, def);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return text(node, scope, def);
  } else if constexpr (std::is_same_v<T, TrainSpan>) {
    return train_span(node, scope, def);
  } else if constexpr (std::is_same_v<T, double>) {
    return def.type == "rate" ? quantity(node, scope, def, Dimension::kRate) : real(node, scope, def);
  } else {
    return def.type.ends_with("size") ? size(node, scope, def) : whole(node, scope, def);
  }
}

template <class T>
std::optional<T> ModuleBuilder::check_value(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if ((def.fallback == "auto" || def.fallback == "none") && symbol(node) == def.fallback) {
    return std::nullopt;
  }
  return read<T>(node, scope, def);
}

template <auto kMember>
void ModuleBuilder::store(const SettingNode& node, Scope& scope, const SettingDef& def) {
  auto& member = spec_of(kMember).*kMember;
  using Member = std::remove_reference_t<decltype(member)>;
  using Value = typename Held<Member>::Type;
  using Read = std::conditional_t<std::is_same_v<Value, uint64_t>, int64_t, Value>;
  if (auto value = check_value<Read>(node, scope, def)) {
    if constexpr (kIsHint<Member>) {
      member = Hint<Value>{*value, value_span(node)};
    } else {
      member = static_cast<Value>(std::move(*value));
    }
  }
}

// Stores a choice. A string member gets the word, a bool member whether the word is not the default, and an enum member
// the index of the word; the indices of hints do not count `auto`.
template <auto kMember>
void ModuleBuilder::store_choice(const SettingNode& node, Scope&, const SettingDef& def) {
  auto& member = spec_of(kMember).*kMember;
  using Member = std::remove_reference_t<decltype(member)>;
  const auto choice = choose(node, def);
  if (!choice || choice->word == "auto") {
    return;
  }
  if constexpr (std::is_same_v<Member, std::string>) {
    member = choice->word;
  } else if constexpr (std::is_same_v<Member, bool>) {
    member = choice->word != def.fallback;
  } else {
    using Value = typename Held<Member>::Type;
    if constexpr (kIsHint<Member>) {
      member = Hint<Value>{static_cast<Value>(choice->index - 1), value_span(node)};
    } else {
      member = static_cast<Value>(choice->index);
    }
  }
}

}  // namespace xrun::lang
