// Names of settings and of their values in other tools, and ours for each.
#pragma once

#include <string>
#include <string_view>

namespace xrun::lang {

// Our text for a setting of another tool: a key ("epochs"), a key with its value ("clip = norm({})"), or, after a `?`,
// a text that is only shown ("?smoothing={} in the loss"). `{}` stands for the value. Empty if `word` is not a setting
// of another tool.
std::string_view foreign_setting(std::string_view word);
// Whether our setting `key` is the one that replaces the setting `word` of another tool.
bool stands_for(std::string_view word, std::string_view key);

// Our value of the setting `key` for the word that another tool uses; empty if the word is unknown.
std::string_view foreign_choice(std::string_view key, std::string_view word);
// Whether the word switches a setting off: None, null, nil, off, ...
bool means_none(std::string_view word);

}  // namespace xrun::lang
