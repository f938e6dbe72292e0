// The catalogue of diagnostics: which codes exist, and what each is about in a few words.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace xrun::lang {

struct MessageInfo {
  std::string_view code;   // "XG0103"
  std::string_view title;  // "a tab"
};

// All codes of messages.def, in its order.
std::span<const MessageInfo> all_messages();
std::optional<MessageInfo> find_message(std::string_view code);

}  // namespace xrun::lang
