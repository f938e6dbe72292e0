#include "ops/initial_values.h"

#include "graph/initialiser.h"
#include "ops/shape.h"

namespace xrun::ops {

Result<Init> init_of(std::string_view op, const Attrs& attrs, int64_t fan_in, int64_t fan_out, Init otherwise) {
  const AttrValue* given = attrs.find("init");
  if (given == nullptr) {
    return otherwise;
  }
  if (std::holds_alternative<double>(*given) || std::holds_alternative<int64_t>(*given)) {
    return Init{.value = attrs.real("init")};
  }
  const auto* text = std::get_if<std::string>(given);
  auto made = text != nullptr ? find_init(*text, {.in = fan_in, .out = fan_out}) : Result<Init>(Init{});
  if (text == nullptr || !made.ok()) {
    return argument_error("`" + std::string(op) + "` has init = " + (text != nullptr ? *text : to_text(*given)) +
                              (made.ok() ? "" : ": " + made.error().message),
                          made.ok() ? "write a number or an initialiser, such as he_normal()" : made.error().help);
  }
  return made;
}

}  // namespace xrun::ops
