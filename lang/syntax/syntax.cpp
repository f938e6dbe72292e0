#include "lang/syntax/syntax.h"

namespace xrun::lang {

std::string_view text_of(Op op) {
  switch (op) {
    case Op::kNeg:
    case Op::kSub:
      return "-";
    case Op::kNot:
      return "not";
    case Op::kAdd:
      return "+";
    case Op::kMul:
      return "*";
    case Op::kDiv:
      return "/";
    case Op::kFloorDiv:
      return "//";
    case Op::kMod:
      return "%";
    case Op::kPow:
      return "^";
    case Op::kEq:
      return "==";
    case Op::kNe:
      return "!=";
    case Op::kLt:
      return "<";
    case Op::kLe:
      return "<=";
    case Op::kGt:
      return ">";
    case Op::kGe:
      return ">=";
    case Op::kAnd:
      return "and";
    case Op::kOr:
      return "or";
  }
  return {};
}

std::string_view keyword_of(DeclKind kind) {
  switch (kind) {
    case DeclKind::kError:
      return "?";
    case DeclKind::kImport:
      return "import";
    case DeclKind::kFrom:
      return "from";
    case DeclKind::kOption:
      return "option";
    case DeclKind::kLet:
      return "let";
    case DeclKind::kFn:
      return "fn";
    case DeclKind::kPointwise:
      return "pointwise";
    case DeclKind::kOptimizer:
      return "optimizer";
    case DeclKind::kBlock:
      return "block";
    case DeclKind::kModel:
      return "model";
    case DeclKind::kData:
      return "data";
    case DeclKind::kTrain:
      return "train";
    case DeclKind::kCluster:
      return "cluster";
    case DeclKind::kSchedule:
      return "schedule";
    case DeclKind::kRun:
      return "run";
    case DeclKind::kTest:
      return "test";
    case DeclKind::kMoved:
      return "moved";
  }
  return {};
}

std::span<const DeclKind> declaration_kinds() {
  static constexpr DeclKind kKinds[] = {
      DeclKind::kImport,   DeclKind::kFrom,      DeclKind::kOption,    DeclKind::kLet,
      DeclKind::kFn,       DeclKind::kPointwise, DeclKind::kOptimizer, DeclKind::kBlock,
      DeclKind::kModel,    DeclKind::kData,      DeclKind::kTrain,     DeclKind::kCluster,
      DeclKind::kSchedule, DeclKind::kRun,       DeclKind::kTest,      DeclKind::kMoved};
  return kKinds;
}

DeclKind kind_of(std::string_view keyword) {
  for (const DeclKind kind : declaration_kinds()) {
    if (keyword_of(kind) == keyword) {
      return kind;
    }
  }
  return DeclKind::kError;
}

std::string join_path(std::span<const Name> path) {
  std::string out;
  for (const Name& name : path) {
    out += out.empty() ? "" : ".";
    out += name.text;
  }
  return out;
}

}  // namespace xrun::lang
