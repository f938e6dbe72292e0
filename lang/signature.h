// What a callable takes: parameters in the language's own syntax, for operators, readers, optimizers, blocks and
// functions alike.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lang/datum.h"
#include "lang/syntax.h"

namespace xrun::lang {

struct Signature {
  std::string name;          // "conv"
  std::string text;          // "conv(x: [N, C, H, W], width: int)": shown in notes
  const Ast* ast = nullptr;  // where the parameters lie
  std::span<const Param> params;
  bool variadic = false;             // the first parameter takes all positional arguments
  std::shared_ptr<const Ast> owned;  // of an operator: parsed from OpDef::signature
};

// A parameter with what it was given; a variadic one has any number of values, the others have one.
struct BoundArg {
  const Param* param = nullptr;
  std::vector<Datum> values;
  bool given = false;  // false: the default
  Span span;           // of the argument; of the call for a default
  const Datum& value() const { return values.front(); }
};

// Whether a parameter is a tensor: it has dimensions.
inline bool takes_tensor(const Param& param) { return param.type.has_dims; }

}  // namespace xrun::lang
