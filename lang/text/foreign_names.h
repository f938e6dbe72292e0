// Names from other frameworks, which new users write first, and our name for each. The foreign names of operators and
// of their arguments are in OpDef::aliases; all other foreign names are here. Capitals, `_` and a final `loss` make no
// difference: `CrossEntropyLoss` is `cross_entropy`. None of these names is a word of the language.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_def.h"
#include "lang/text/faults.h"

namespace xrun::lang {

enum class NameKind { kMetric, kCurve, kOptimizer, kArgument, kReader, kStage, kFunction, kElement };

// Our name for `word`, or an example of its syntax; empty if the word is not such a name.
std::string_view foreign_name(NameKind kind, std::string_view word);
// A word in lower case without `_` and a final `loss`, the form that tables of such names use.
std::string plain_name(std::string_view word);
bool is_spelling_of(std::string_view word, std::string_view name);

// The fix for an unknown name of a kind: our name for it, else the nearest of `known`, else `otherwise`.
Fix our_name(NameKind kind, std::string_view word, const std::vector<std::string>& known, Span at, Help otherwise);

// A net of another library: our block, and the call of it.
struct ForeignNet {
  std::string_view word;  // in the form of `plain_name`
  std::string_view block;
  std::string_view call;
};
// The net that a plain name means; null if there is no such net.
const ForeignNet* foreign_net(std::string_view word);

// The operator that `word` means, by its name in any spelling or by an alias; null if there is no such operator.
const OpDef* foreign_op(const OpRegistry& ops, std::string_view word);
// Our name of an argument, empty if the operator takes that number from its input; nullopt if `word` is not an alias.
std::optional<std::string_view> our_argument(const OpDef& op, std::string_view word);
// The argument that the operator's other name `word` implies unless the call gives it: "stride=k"; otherwise empty.
std::string_view implied_argument(const OpDef& op, std::string_view word);

}  // namespace xrun::lang
