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

// The operator, block or function that a called name refers to.
struct Callee {
  enum Kind { kUnknown, kBlock, kFn, kOp, kBuiltin, kPointwise };
  Kind kind = kUnknown;
  DeclRef decl;
  const OpDef* op = nullptr;
  std::string name;
};

// A call in the text.
struct Call {
  const Ast* ast = nullptr;
  std::span<const Arg> args;
  std::optional<Datum> flowing;  // the value before `->`; a tuple fills the first parameters
  Name label;                    // name after `as`
  Span span;                     // span of the whole call
  Span name_span;
  std::string_view read_apart = {};  // a parameter that takes paths; its argument is not among `args`
};

}  // namespace xrun::lang
