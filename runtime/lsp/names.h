// The names of one file: what each of them stands for, and where that is declared. They are found in the syntax tree
// alone, so this also works if the file has mistakes.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "graph/base/source.h"
#include "lang/syntax/loader.h"

namespace xrun::lsp {

enum class NameKind {
  kUnknown,
  kOperator,   // an operator of the operator registry
  kBuiltin,    // a reader, a stage of data, a curve or a function of numbers
  kBlock,      // `block`
  kFunction,   // `fn`
  kPointwise,  // `pointwise`
  kOptimizer,
  kModel,
  kConstant,  // `option` and `let`
  kRunPart,   // a declaration of data, train, cluster, schedule or run
  kImport,    // the name that `import ... as` declares
  kParameter,
  kDimension,  // a dimension variable
  kBinding,    // a value that a body binds to a name
  kInput,
  kHead,
  kParam,  // `param` and `state`
  kLabel,  // the name after `as`
  kSource,
  kField,  // a field that `data` binds and that is not an input
  kSetting,
  kArgument,  // the name of an argument of an operator
  kType,
};

struct Occurrence {
  Span at;
  NameKind kind = NameKind::kUnknown;
  Span definition;                   // the name where it is declared; invalid if the language itself defines it
  const lang::Decl* decl = nullptr;  // the declaration that the name refers to, or in which it is declared
  bool declares() const { return at == definition; }
};

// Whether names of this kind are parts of the names of tensors. Renaming them then loses the values in checkpoints.
constexpr bool names_tensors(NameKind kind) {
  return kind == NameKind::kLabel || kind == NameKind::kHead || kind == NameKind::kParam || kind == NameKind::kBlock;
}

// Facts from outside the file: whether the language has an operator with a given name, and the standard library's
// files.
struct Surroundings {
  std::function<bool(std::string_view)> is_operator;
  std::function<const lang::SourceFile*(const char*)> library;
};

// All names of the file, in order of their places. No two overlap.
std::vector<Occurrence> find_names(const lang::SourceFile& file, const Surroundings& surroundings);

// The name that contains or ends at an offset; null if there is no name.
const Occurrence* name_at(const std::vector<Occurrence>& names, uint32_t offset);

}  // namespace xrun::lsp
