// A call of the text, and the operator, block or function that it names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/op_def.h"
#include "lang/elaborate/datum.h"
#include "lang/syntax/loader.h"
#include "lang/syntax/syntax.h"

namespace xrun::lang {

// The operator, block or function that a called name stands for.
struct Callee {
  enum Kind { kUnknown, kBlock, kFn, kOp, kBuiltin, kPointwise };
  Kind kind = kUnknown;
  DeclRef decl;
  const OpDef* op = nullptr;
  std::string name;
};

// A call as it is written.
struct Call {
  const Ast* ast = nullptr;
  std::span<const Arg> args;
  std::optional<Datum> flowing;  // from the left of `->`; a tuple fills the first parameters
  Name label;                    // `as`
  Span span;                     // the whole call
  Span name_span;
  std::string_view read_apart = {};  // a parameter that takes paths, and whose argument is not among `args`
};

}  // namespace xrun::lang
