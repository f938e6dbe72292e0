// Settings, and words of their values, as other tools call them, and ours for each.
#pragma once

#include <string>
#include <string_view>

namespace xrun::lang {

// Our name for a setting: a key ("epochs"), a line ("clip = norm({})") or, after a `?`, a text that is only shown
// ("?smoothing={} in the loss"). `{}` stands for the value. Empty if no other tool has the setting.
std::string_view foreign_setting(std::string_view word);
// Whether the setting of another tool is carried out by our setting `key`.
bool stands_for(std::string_view word, std::string_view key);

// Our value of the setting `key` for what another tool calls `word`; empty if it is no such word.
std::string_view foreign_choice(std::string_view key, std::string_view word);
// None, null, nil, off, ...: a setting that is switched off.
bool means_none(std::string_view word);

}  // namespace xrun::lang
