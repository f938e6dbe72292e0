// Lowers `pipeline`, the order of forward and backward passes.
#include <algorithm>
#include <fmt/format.h>

#include "lang/lower/module_builder.h"

namespace xrun::lang {
namespace {

constexpr int64_t kMostChunks = 64;
constexpr int64_t kMostWarmUp = 1 << 20;

}  // namespace

void ModuleBuilder::lower_pipeline(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto choice = choose(node, def);
  if (!choice || choice->word == def.fallback) {
    return;
  }
  Hint<PipelineHint> hint{.value = {.kind = static_cast<PipelineKind>(choice->index - 1)}, .span = value_span(node)};
  if (!choice->signature.empty()) {
    const auto bound = arguments(node, *choice, scope);
    if (!bound) {
      return;
    }
    for (const BoundArg& arg : *bound) {
      const std::string_view name = arg.param->name.text;
      const bool is_chunks = name == "chunks";
      const int64_t least = is_chunks ? 2 : 0;
      const int64_t most = is_chunks ? kMostChunks : kMostWarmUp;
      const auto number = whole_number(arg.value());
      if (!number || *number < least || *number > most) {
        const Span at = arg.value().span.valid() ? arg.value().span : arg.span;
        ev_.refuse("XG0214", at, {"`{}` of `{}` cannot be {}", name, choice->word, to_text(arg.value())},
                   is_chunks ? "it is the number of stages on each device" : "",
                   {"write a whole number of {} to {}", least, most});
        return;
      }
      (is_chunks ? hint.value.chunks : hint.value.warm_up) = *number;
    }
  }
  module_.schedule.pipeline = hint;
}

}  // namespace xrun::lang
