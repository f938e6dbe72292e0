// Signatures: the parameters of operators, readers, optimizers, blocks and functions, all in the language's own syntax.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "graph/op_def.h"
#include "lang/elaborate/datum.h"
#include "lang/syntax/loader.h"
#include "lang/syntax/syntax.h"

namespace xrun::lang {

struct Signature {
  std::string name;          // "conv"
  std::string text;          // "conv(x: [N, C, H, W], width: int)": shown in notes
  const Ast* ast = nullptr;  // tree with the parameters
  std::span<const Param> params;
  const OpDef* op = nullptr;         // null: not an operator
  bool is_pointwise = false;         // parameters without a type are tensors or numbers
  bool is_optimizer = false;         // `show --explicit` writes the arguments that a call leaves out
  bool variadic = false;             // the first parameter takes all positional arguments
  std::shared_ptr<const Ast> owned;  // set if the signature was parsed from text, such as OpDef::signature
};

// A parameter and its values: one or more for a variadic parameter, one for any other.
struct BoundArg {
  const Param* param = nullptr;
  std::vector<Datum> values;
  bool given = false;  // false: the values are the default
  Span span;           // place of the argument; for a default the place of the call
  const Datum& value() const { return values.front(); }
};

// The diagnostic with the signature as a note.
Diagnostic with_signature(Diagnostic diagnostic, const Signature& signature);

// Whether a parameter is a tensor: it has dimensions.
inline bool takes_tensor(const Param& param) { return param.type.has_dims; }

// Whether a parameter of this type takes a bare name.
inline bool is_symbol_type(std::string_view type) { return type == "symbol" || type == "init" || type == "source"; }

// The signatures that a check has used so far; each is parsed once.
class Signatures {
 public:
  explicit Signatures(SourceMap& sources) : sources_(sources) {}

  const Signature& of(const OpDef& op);
  const Signature& of(const DeclRef& decl);  // a block, a function or a model with parameters
  // The signature of a reader, a stage or an optimizer; `text` is its parameter list, as in ReaderDef::signature: "(x:
  // int, ...)".
  const Signature& of(std::string_view name, std::string_view text, bool variadic = false);

 private:
  SourceMap& sources_;
  std::map<std::string, Signature, std::less<>> written_;
  std::unordered_map<const OpDef*, const Signature*> of_ops_;  // signatures of operators
  std::map<const Decl*, Signature> declared_;
};

}  // namespace xrun::lang
