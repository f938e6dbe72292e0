// Short constructors of errors: content_error(code, {"{} is missing", path}, "use an older one").
#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

#include "graph/base/result.h"

namespace xrun {

// The text of a message: a text as it is, or a format of fmt with its arguments, {"`{}` is bound twice", name}.
struct Text {
  Text(const char* as_it_is) : text(as_it_is) {}
  Text(std::string as_it_is) : text(std::move(as_it_is)) {}
  template <class... Args>
  requires(sizeof...(Args) > 0) Text(fmt::format_string<Args...> form, Args&&... args)
      : text(fmt::format(form, std::forward<Args>(args)...)) {}

  std::string text;
};

inline Error error_of(ErrorKind kind, std::string_view code, Text message, Text help, Span at = {}) {
  return {.kind = kind,
          .code = std::string(code),
          .message = std::move(message.text),
          .help = std::move(help.text),
          .span = at};
}
inline Error content_error(std::string_view code, Text message, Text help, Span at = {}) {
  return error_of(ErrorKind::kContent, code, std::move(message), std::move(help), at);
}
inline Error world_error(std::string_view code, Text message, Text help) {
  return error_of(ErrorKind::kWorld, code, std::move(message), std::move(help));
}
inline Error usage_error(std::string_view code, Text message, Text help) {
  return error_of(ErrorKind::kUsage, code, std::move(message), std::move(help));
}

}  // namespace xrun
