// What other frameworks call things, which a new user writes first, and our name for each. The names of operators and
// of their arguments stand in OpDef::aliases; those of everything else stand here. Capitals, `_` and a final `loss` do
// not count: `CrossEntropyLoss` is `cross_entropy`. None of them is a word of the language.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_def.h"
#include "lang/faults.h"

namespace xrun::lang {

enum class NameKind { kMetric, kCurve, kOptimizer, kArgument, kReader, kStage, kFunction, kElement };

// Our name for `word`, or an example of how it is written; empty if it is no such name.
std::string_view foreign_name(NameKind kind, std::string_view word);
// A word in small letters without `_` and a final `loss`, as tables of such names have it.
std::string plain_name(std::string_view word);
bool is_spelling_of(std::string_view word, std::string_view name);

// The fix for an unknown name of a kind: our name for it, else the nearest of `known`, else `otherwise`.
Fix our_name(NameKind kind, std::string_view word, const std::vector<std::string>& known, Span at, Help otherwise);

// A net of another library: our block, and how it is called.
struct ForeignNet {
  std::string_view word;  // as `plain_name` gives it
  std::string_view block;
  std::string_view call;
};
// The net that a plain name means; null if it means none.
const ForeignNet* foreign_net(std::string_view word);

// The operator that `word` means, by its name in any spelling or by an alias; null if it means none.
const OpDef* foreign_op(const OpRegistry& ops, std::string_view word);
// Our name of an argument, empty where the operator takes that number from its input; nothing if `word` is no alias.
std::optional<std::string_view> our_argument(const OpDef& op, std::string_view word);
// "stride=k": an argument that has this value where the operator is called `word`, unless it is given; else empty.
std::string_view implied_argument(const OpDef& op, std::string_view word);

}  // namespace xrun::lang
