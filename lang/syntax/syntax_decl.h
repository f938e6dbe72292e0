// Statements, settings and declarations of the syntax tree: handles into the pools of an Ast (lang/syntax/syntax.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lang/syntax/syntax_expr.h"

namespace xrun::lang {

enum class StmtKind : uint8_t {
  kError,
  kInput,   // input names[0]: type
  kOutput,  // output names
  kHead,    // head names[0] = value
  kParam,   // param names[0]: type = value
  kState,   // state names[0]: type = value; in optimizers without a type
  kReturn,  // return value
  kAssert,  // assert value [ , message ]
  kExpect,  // expect value
  kBind,    // names = value; is_tuple: (a, b) = value, also with one name
};

struct Stmt {
  StmtKind kind = StmtKind::kError;
  bool is_tuple = false;
  Span span;
  Run<Name> names;
  Type type;
  ExprId value;
  ExprId message;  // a kString
};

enum class SettingKind : uint8_t {
  kError,
  kSource,  // source name = value
  kValue,   // path = value
  kGroup,   // path [ name ] { settings }: `eval { }`, `shard sku { }`, `groups { backbone.stem { } }`
  kMoved,   // moved value -> to, each a kName or a kString
};

struct Setting {
  SettingKind kind = SettingKind::kError;
  Span span;
  Run<Name> path;  // NAME { "." NAME }; empty for kSource
  Name name;
  ExprId value;
  ExprId to;
  Run<Setting> settings;
};

enum class DeclKind : uint8_t {
  kError,
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
DeclKind kind_of(std::string_view keyword);  // kError for a word that starts no declaration
constexpr DeclKind next(DeclKind kind) { return static_cast<DeclKind>(static_cast<uint8_t>(kind) + 1); }

// Whether the braces contain settings, `key = value`.
constexpr bool has_settings(DeclKind kind) { return kind >= DeclKind::kData && kind <= DeclKind::kRun; }
// Whether the braces contain statements.
constexpr bool has_body(DeclKind kind) {
  return (kind >= DeclKind::kOptimizer && kind <= DeclKind::kModel) || kind == DeclKind::kTest;
}
// Whether the name is in the one namespace of values of the file. Models and the declarations with settings have a
// namespace for each kind instead (has_own_names).
constexpr bool names_a_value(DeclKind kind) { return kind >= DeclKind::kOption && kind <= DeclKind::kBlock; }
constexpr bool has_own_names(DeclKind kind) { return kind >= DeclKind::kModel && kind <= DeclKind::kRun; }

struct Decl {
  DeclKind kind = DeclKind::kError;
  bool has_params = false;
  bool has_fault = false;  // a fault was reported in it, so missing parts are not reported again
  Span span;               // from the keyword to the end
  Span keyword;
  std::string doc;  // lines of its ## comments, without the signs
  Name name;
  Name base;        // name after `extends`
  Name type_name;   // type of an option
  Run<Name> names;  // names of `use`
  Run<Param> params;
  Run<Type> results;
  Run<Stmt> body;
  Run<Setting> settings;
  ExprId text;  // a kString: path of an import, title of a test, old name of `moved`
  ExprId to;    // a kString: new name of `moved`
  ExprId value;
  ExprId range;  // range of an option, the expression after `in`
};

}  // namespace xrun::lang
