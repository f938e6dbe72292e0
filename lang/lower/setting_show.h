// The texts of values that `store` and `store_choice` have stored (setting_store.h): templates over the member of a
// spec. Only setting_def.cpp includes this header.
#pragma once

#include <concepts>
#include <fmt/format.h>
#include <string>
#include <type_traits>
#include <vector>

#include "lang/lower/math_text.h"
#include "lang/lower/setting_def.h"
#include "lang/lower/setting_store.h"
#include "lang/lower/setting_text.h"

namespace xrun::lang {

template <class Spec, class T>
const Spec& shown_spec(const Shown& shown, T Spec::*) {
  if constexpr (std::is_same_v<Spec, TrainSpec>) {
    return shown.module.train;
  } else if constexpr (std::is_same_v<Spec, DataSpec>) {
    return shown.module.data;
  } else if constexpr (std::is_same_v<Spec, ClusterSpec>) {
    return shown.module.cluster;
  } else if constexpr (std::is_same_v<Spec, ScheduleSpec>) {
    return shown.module.schedule;
  } else if constexpr (std::is_same_v<Spec, ShardHint>) {
    return *shown.shard;
  } else {
    return *shown.group;
  }
}

// The text of a value of this type; the reverse of `read`.
inline std::string value_text(const SettingDef&, bool value) { return value ? "true" : "false"; }
inline std::string value_text(const SettingDef& def, double value) {
  return def.type == "share"  ? fmt::format("{:.12g}%", 100 * value)
         : def.type != "rate" ? number_text(value)
         : value > 0          ? number_text(value) + "B/s"
                              : std::string(def.fallback);
}
inline std::string value_text(const SettingDef&, const TrainSpan& value) { return to_text(value); }
inline std::string value_text(const SettingDef& def, const std::string& value) {
  return value.empty() ? std::string(def.fallback) : value;
}
inline std::string value_text(const SettingDef& def, std::integral auto value) {
  // A value outside the bounds, such as 0 cores, means that the setting was never set.
  const bool is_set = static_cast<double>(value) >= def.low;
  return !is_set ? std::string(def.fallback) : def.type.ends_with("size") ? size_text(value) : std::to_string(value);
}
template <class T>
std::string value_text(const SettingDef& def, const Hint<T>& hint) {
  return value_text(def, hint.value);
}

// The text of a value that `store` has stored; empty or the default if it is not set.
template <auto kMember>
std::string show_member(const SettingDef& def, const Shown& shown) {
  const auto& member = shown_spec(shown, kMember).*kMember;
  using Member = std::remove_cvref_t<decltype(member)>;
  if constexpr (!std::is_same_v<Member, typename Held<Member>::Type>) {
    const bool inherits = shown.group != nullptr;  // an absent setting of a group is inherited from the groups above it
    return member ? value_text(def, *member) : inherits ? "" : std::string(def.fallback);
  } else {
    return value_text(def, member);
  }
}

// The word of the choice that `store_choice` has stored.
template <auto kMember>
std::string show_choice(const SettingDef& def, const Shown& shown) {
  const auto& member = shown_spec(shown, kMember).*kMember;
  using Member = std::remove_cvref_t<decltype(member)>;
  const std::vector<SettingChoice> choices = choices_of(def);
  if constexpr (std::is_same_v<Member, std::string>) {
    return member;
  } else if constexpr (kIsHint<Member>) {
    return std::string(member ? choices[static_cast<size_t>(member->value) + 1].word : def.fallback);
  } else if constexpr (!std::is_same_v<Member, typename Held<Member>::Type>) {
    return member ? std::string(choices[static_cast<size_t>(*member)].word) : "";
  } else {
    return std::string(choices[static_cast<size_t>(member)].word);
  }
}

}  // namespace xrun::lang
