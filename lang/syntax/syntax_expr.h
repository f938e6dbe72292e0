// Expressions, types and pipelines of the syntax tree: handles into the pools of an Ast (lang/syntax/syntax.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/base/id.h"
#include "graph/base/source.h"

namespace xrun::lang {

struct ExprTag;
using ExprId = Id<ExprTag>;  // not valid(): the optional part is absent

// Consecutive elements of the Ast's vector of T; `ast[run]` is the std::span of them. The Ast has a vector for every T
// that is used in a Run.
template <typename T>
struct Run {
  uint32_t first = 0;
  uint32_t count = 0;
  bool empty() const { return count == 0; }
};

// A name and its place. The text is a view of the SourceMap from which the file was parsed, which outlives the Ast. It
// is empty if an optional name is absent, or if a fault was reported instead of the name.
struct Name {
  std::string_view text;
  Span span;
  explicit operator bool() const { return !text.empty(); }
};

// An argument of a call: `name = value` or `value`.
struct Arg {
  Name name;
  ExprId value;
  Span span;
};

// type = [ NAME [ "(" expr ")" ] ] dims | NAME [ "(" expr ")" ]: "f32[N, 3]", "[N, ..., D]", "index(C)[N]", "int".
struct Type {
  Name name;        // "f32", "index", "sharded", "int", or absent
  ExprId argument;  // C of index(C)
  bool has_dims = false;
  Run<ExprId> dims;  // ExprKind::kEllipsis for "..."
  Span span;         // not valid(): the type is absent
};

// param = NAME [ ":" type ] [ "=" expr ].
struct Param {
  Name name;
  Type type;
  ExprId value;
  Span span;
};

enum class ExprKind : uint8_t {
  kError,   // a fault was reported here, so evaluation reports nothing more
  kNumber,  // number
  kString,  // text
  kBool,    // flag
  kAuto,
  kNone,
  kName,      // name
  kEllipsis,  // only among the dims of a Type
  kTuple,     // items; (a) is a itself, (a,) and (a, b) are tuples
  kList,      // items
  kCall,      // lhs(args)
  kIndex,     // lhs[items]
  kField,     // lhs.name
  kUnary,     // op lhs, op in kNeg kNot
  kBinary,    // lhs op rhs
  kRange,     // lhs .. rhs
  kIf,        // if condition { lhs } else { rhs }; `else if` is an rhs that is a kIf
  kPipe,      // lhs -> stages, one stage or more
};

enum class Op : uint8_t {
  kNeg,
  kNot,  // unary
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,  // arithmetic; / is exact, // rounds down
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,  // comparisons do not chain
  kAnd,
  kOr,
};
std::string_view text_of(Op op);  // "//"

struct Stage;

struct Expr {
  ExprKind kind = ExprKind::kError;
  Op op = Op::kAdd;
  bool flag = false;  // kBool
  Span span;
  ExprId lhs;
  ExprId rhs;
  ExprId condition;      // kIf
  uint32_t literal = 0;  // index into numbers (kNumber) or strings (kString): use Ast::number, Ast::text
  Name name;             // kName, kField; for kBinary, kRange and kUnary its span is the operator's
  Run<ExprId> items;
  Run<Arg> args;
  Run<Stage> stages;
};

// pipe = stage { "->" stage }. A pipe in braces is called a fragment.
struct Pipe {
  Run<Stage> stages;
  Span span;
};

enum class StageKind : uint8_t {
  kError,
  kCall,      // path [ args ]
  kRepeat,    // repeat count [ as index ] pipes[0]
  kResidual,  // residual pipes[0]
  kFork,      // fork { pipes }
  kIf,        // if condition pipes[0] [ else pipes[1] ]
};

struct Stage {
  StageKind kind = StageKind::kError;
  bool has_args = false;  // `bn()` and `bn` mean the same, but are printed as written
  Span span;              // including the label
  Run<Name> path;         // kCall: NAME { "." NAME }
  Run<Arg> args;
  ExprId value;  // kRepeat: the count; kIf: the condition
  Name index;    // kRepeat: `i` in `repeat 12 as i { ... }`
  Run<Pipe> pipes;
  Name label;  // label after `as`: `blocks` in `repeat ... { ... } as blocks`
};

}  // namespace xrun::lang
