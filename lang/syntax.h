// The syntax tree of one file as a value: nodes lie in the vectors of an Ast, handles are ids and runs, every node has
// its span. Nothing is resolved here: names are text, and what could not be parsed is a hole.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/id.h"
#include "graph/base/source.h"
#include "lang/number.h"

namespace xrun::lang {

struct ExprTag;
using ExprId = Id<ExprTag>;  // not valid(): the optional part is absent

// Consecutive elements of the Ast's vector of T; `ast[run]` is the std::span of them. Every T below that is used in a
// Run lies in a vector of its own, so that children are read without a further handle.
template <typename T>
struct Run {
  uint32_t first = 0;
  uint32_t count = 0;
  bool empty() const { return count == 0; }
};

// A name where it stands. The text lies in the SourceMap that the file was parsed from, which outlives the Ast.
// Empty text: absent, which only optional names are; a node that lacks a name it needs is a hole.
struct Name {
  std::string_view text;
  Span span;
  explicit operator bool() const { return !text.empty(); }
};

// `name = value` or `value` in a call.
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
  kHole,    // a fault was reported here; whoever meets it stays silent
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
  ExprKind kind = ExprKind::kHole;
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

// pipe = stage { "->" stage }; a fragment is a pipe in braces.
struct Pipe {
  Run<Stage> stages;
  Span span;
};

enum class StageKind : uint8_t {
  kHole,
  kCall,      // path [ args ]
  kRepeat,    // repeat count [ as index ] pipes[0]
  kResidual,  // residual pipes[0]
  kFork,      // fork { pipes }
  kIf,        // if condition pipes[0] [ else pipes[1] ]
};

struct Stage {
  StageKind kind = StageKind::kHole;
  bool has_args = false;  // `bn()` and `bn` mean the same, but are printed as written
  Span span;              // with the label
  Run<Name> path;         // kCall: NAME { "." NAME }
  Run<Arg> args;
  ExprId value;  // kRepeat: the count; kIf: the condition
  Name index;    // kRepeat: `i` of `repeat 12 as i { ... }`
  Run<Pipe> pipes;
  Name label;  // `blocks` of `repeat ... { ... } as blocks`
};

enum class StmtKind : uint8_t {
  kHole,
  kInput,   // input names[0]: type
  kOutput,  // output names
  kHead,    // head names[0] = value
  kParam,   // param names[0]: type = value
  kState,   // state names[0] = value
  kReturn,  // return value
  kAssert,  // assert value [ , message ]
  kExpect,  // expect value
  kBind,    // names = value; is_tuple: (a, b) = value, also with one name
};

struct Stmt {
  StmtKind kind = StmtKind::kHole;
  bool is_tuple = false;
  Span span;
  Run<Name> names;
  Type type;
  ExprId value;
  ExprId message;  // a kString
};

enum class SettingKind : uint8_t {
  kHole,
  kSource,  // source name = value
  kValue,   // path = value
  kGroup,   // path [ name ] { settings }: `eval { }`, `shard sku { }`, `groups { backbone.stem { } }`
};

struct Setting {
  SettingKind kind = SettingKind::kHole;
  Span span;
  Run<Name> path;  // NAME { "." NAME }; empty for kSource
  Name name;
  ExprId value;
  Run<Setting> settings;
};

enum class DeclKind : uint8_t {
  kHole,
  kImport,     // import text [ as name ]
  kFrom,       // from text use names
  kOption,     // option name: type_name [ = value ] [ in range ]
  kLet,        // let name = value
  kFn,         // fn name params = value
  kPointwise,  // pointwise name params = value
  kOptimizer,  // optimizer name params body
  kBlock,      // block name params [ -> results ] body
  kModel,      // model name [ params ] body
  kData,
  kTrain,
  kCluster,
  kSchedule,
  kRun,    // kind [ name ] [ extends base ] settings
  kTest,   // test text body
  kMoved,  // moved text -> to
};
std::string_view keyword_of(DeclKind kind);  // "train"

struct Decl {
  DeclKind kind = DeclKind::kHole;
  bool has_params = false;
  bool has_fault = false;  // a fault was reported in it: what its header lacks is not worth a second report
  Span span;               // from the keyword to the end
  Span keyword;
  std::string doc;  // the lines of its ## comments, without the signs
  Name name;
  Name base;        // of `extends`
  Name type_name;   // of an option
  Run<Name> names;  // of `use`
  Run<Param> params;
  Run<Type> results;
  Run<Stmt> body;
  Run<Setting> settings;
  ExprId text;  // a kString: path of an import, title of a test, old name of `moved`
  ExprId to;    // a kString: new name of `moved`
  ExprId value;
  ExprId range;  // of an option, what follows `in`
};

// The tree. `const` once parsed; spans returned here live as long as the Ast.
class Ast {
 public:
  int32_t file = -1;
  int edition = 0;  // of `xgraph 1`; 0 when the line is missing (reported)
  std::string doc;  // the ## comments between `xgraph 1` and the first declaration that are set off by a blank line
  std::vector<Decl> decls;  // in source order
  Run<Param> params;        // of parse_params
  ExprId value;             // of parse_value

  const Expr& operator[](ExprId id) const { return exprs[id.index]; }
  std::span<const ExprId> operator[](Run<ExprId> run) const { return view(items, run); }
  std::span<const Arg> operator[](Run<Arg> run) const { return view(args, run); }
  std::span<const Name> operator[](Run<Name> run) const { return view(names, run); }
  std::span<const Param> operator[](Run<Param> run) const { return view(params_pool, run); }
  std::span<const Type> operator[](Run<Type> run) const { return view(types, run); }
  std::span<const Stage> operator[](Run<Stage> run) const { return view(stages, run); }
  std::span<const Pipe> operator[](Run<Pipe> run) const { return view(pipes, run); }
  std::span<const Stmt> operator[](Run<Stmt> run) const { return view(stmts, run); }
  std::span<const Setting> operator[](Run<Setting> run) const { return view(settings, run); }

  const Number& number(ExprId id) const { return numbers[exprs[id.index].literal]; }     // of a kNumber
  const std::string& text(ExprId id) const { return strings[exprs[id.index].literal]; }  // of a kString, decoded

  // The pools; the parser fills them, others read through the operators above.
  std::vector<Expr> exprs;
  std::vector<Number> numbers;
  std::vector<std::string> strings;
  std::vector<ExprId> items;
  std::vector<Arg> args;
  std::vector<Name> names;
  std::vector<Param> params_pool;
  std::vector<Type> types;
  std::vector<Stage> stages;
  std::vector<Pipe> pipes;
  std::vector<Stmt> stmts;
  std::vector<Setting> settings;

 private:
  template <typename T>
  static std::span<const T> view(const std::vector<T>& pool, Run<T> run) {
    return std::span<const T>(pool).subspan(run.first, run.count);
  }
};

// "a.b.c" of a path of names.
std::string join_path(std::span<const Name> path);

}  // namespace xrun::lang
