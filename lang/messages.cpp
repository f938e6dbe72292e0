#include "lang/messages.h"

namespace xrun::lang {
namespace {

constexpr MessageInfo kMessages[] = {
#define XRUN_MESSAGE(code, title) {#code, title},
#include "lang/messages.def"
#undef XRUN_MESSAGE
};

}  // namespace

std::span<const MessageInfo> all_messages() { return kMessages; }

std::optional<MessageInfo> find_message(std::string_view code) {
  for (const MessageInfo& message : kMessages) {
    if (message.code == code) {
      return message;
    }
  }
  return std::nullopt;
}

}  // namespace xrun::lang
