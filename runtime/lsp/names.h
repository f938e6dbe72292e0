// The names of one file: what each of them stands for, and where that is declared. Found in the tree alone, so it works
// where the file has mistakes, too.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "graph/base/source.h"
#include "lang/syntax/loader.h"

namespace xrun::lsp {

enum class NameKind {
  kUnknown,
  kOperator,   // of the table of operators
  kBuiltin,    // readers, stages of data, curves, functions of numbers
  kBlock,      // declarations that a call names
  kFunction,   // `fn`
  kPointwise,  // `pointwise`
  kOptimizer,
  kModel,
  kConstant,  // `option` and `let`
  kRunPart,   // declarations of data, train, cluster, schedule and run
  kImport,    // what `import ... as` declares
  kParameter,
  kDimension,  // a dimension variable
  kBinding,    // a value of a body
  kInput,
  kHead,
  kParam,  // `param` and `state`
  kLabel,  // `as`
  kSource,
  kField,  // what `data` binds besides inputs
  kSetting,
  kArgument,  // the name of an argument of an operator
  kType,
};

struct Occurrence {
  Span at;
  NameKind kind = NameKind::kUnknown;
  Span definition;                   // the name where it is declared; not valid where the language itself knows it
  const lang::Decl* decl = nullptr;  // the declaration that it names, or that declares it
  bool declares() const { return at == definition; }
};

// Whether a name is part of the names of a model's tensors, so that another name loses their values in checkpoints.
constexpr bool names_tensors(NameKind kind) {
  return kind == NameKind::kLabel || kind == NameKind::kHead || kind == NameKind::kParam || kind == NameKind::kBlock;
}

// What is not in the file: whether the language has an operator of that name, and files of the standard library.
struct Surroundings {
  std::function<bool(std::string_view)> is_operator;
  std::function<const lang::SourceFile*(const char*)> library;
};

// All names of the file, by place; no two overlap.
std::vector<Occurrence> find_names(const lang::SourceFile& file, const Surroundings& surroundings);

// The one at a place, or that ends there; null if there is none.
const Occurrence* name_at(const std::vector<Occurrence>& names, uint32_t offset);

}  // namespace xrun::lsp
