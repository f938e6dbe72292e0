// Makes fixes for text in the style of other frameworks that is not a call of an operator: nets that are not imported,
// methods of tensors, lists of tensors, paths without quotes.
// Tests: tests/lang/text/foreign_names_test.cpp, tests/lang/first_time_test.cpp
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"
#include "lang/text/foreign_names.h"
#include "lang/text/foreign_text.h"
#include "lang/text/lexer.h"

namespace xrun::lang {
namespace {

constexpr std::array<const char*, 2> kLibrary{"std/nets", "std/vision"};

// The text between the bracket at `open` and its partner; nullopt if the partner is not on the same line.
std::optional<std::string_view> in_brackets(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t at = open; at < text.size() && text[at] != '\n'; ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) {
      return text.substr(open + 1, at - open - 1);
    }
  }
  return std::nullopt;
}

}  // namespace

// The fix for a block of the standard library that is called by its name in another library, or that is not imported:
// adds the import line, and changes the call if the name differs.
std::optional<Fix> Evaluator::not_imported(const Name& name, const Call& call, const Scope& scope) const {
  const std::string plain = plain_name(name.text);
  const ForeignNet* net = foreign_net(plain);
  std::string block(net != nullptr ? net->block : std::string_view());
  const char* file = kLibrary[0];
  for (const char* library : kLibrary) {
    for (const std::string& known : names_in_library(library)) {
      if (block.empty() && plain_name(known) == plain) {
        block = known;
        file = library;
      }
    }
  }
  if (block.empty()) {
    return std::nullopt;
  }
  const std::string line = fmt::format("from \"{}\" use {}", file, block);
  const std::string_view text = sources_.text(name.span.file);
  const auto first_line = static_cast<uint32_t>(std::min(text.find('\n'), text.size() - 1) + 1);
  Fix fix{fmt::format("bring it in: {}", line)};
  const bool known = scope.file != nullptr && scope.file->find(block);
  if (known) {
    fix.title = net == nullptr ? fmt::format("write {}", block) : fmt::format("write {}", net->call);
  } else {
    fix.edits.push_back({{name.span.file, first_line, first_line}, "\n" + line + "\n"});
  }
  const bool is_ours = net == nullptr;
  if (!is_ours && !known) {
    fix.title = fmt::format("write {}, and bring it in: {}", net->call, line);
  }
  if (is_ours || net->call.find("...") != std::string_view::npos) {
    fix.edits.push_back({call.name_span, block});
  } else if (call.flowing || call.args.empty()) {
    fix.edits.push_back(
        {{name.span.file, call.name_span.begin, std::max(call.name_span.end, call.span.end)}, std::string(net->call)});
  } else {
    fix.edits.clear();
  }
  return fix;
}

// The fix for `x.relu().flatten()`: methods of a value are written as stages after arrows.
std::optional<Fix> Evaluator::as_stages(std::span<const Name> path, const Call&, const Scope& scope) const {
  bool is_value = false;
  for (const Scope* level = &scope; level != nullptr && path.size() == 2; level = level->parent) {
    is_value = is_value || level->locals.contains(path[0].text);
  }
  if (!is_value || (find_op(path[1].text) == nullptr && foreign_op(*options_.ops, path[1].text) == nullptr)) {
    return std::nullopt;
  }
  const std::string_view text = sources_.text(path[0].span.file);
  const uint32_t begin = path[0].span.begin;
  std::string stages(path[0].text);
  size_t at = path[0].span.end;
  while (at < text.size() && text[at] == '.') {
    size_t end = at + 1;
    while (end < text.size() && is_name_char(text[end])) {
      ++end;
    }
    const std::string_view name = text.substr(at + 1, end - at - 1);
    const auto args = end < text.size() && text[end] == '(' ? in_brackets(text, end) : std::nullopt;
    if (name.empty() || !args) {
      break;
    }
    stages += fmt::format(" -> {}{}", name, args->empty() ? "" : fmt::format("({})", *args));
    at = end + args->size() + 2;
  }
  return replacement("stages follow a value after `->`", {path[0].span.file, begin, static_cast<uint32_t>(at)},
                     std::move(stages), true);
}

// The fix for `Linear(8)(x)`, a layer that is made and called at once: calls `ours` with the content of the second
// brackets.
std::optional<Fix> Evaluator::as_pipe(const Call& call, std::string_view ours) const {
  const std::string_view text = sources_.text(call.span.file);
  const size_t end = call.span.end;
  if (call.flowing || end >= text.size() || text[end] != '(' || text[end - 1] != ')') {
    return std::nullopt;
  }
  const auto input = in_brackets(text, end);
  const std::string_view args = text.substr(call.name_span.end, call.span.end - call.name_span.end);
  if (!input || input->find(',') != std::string_view::npos) {
    return std::nullopt;
  }
  const auto last = static_cast<uint32_t>(end + input->size() + 2);
  return replacement({"`{}` follows its input after `->`", ours}, {call.span.file, call.name_span.begin, last},
                     {"{} -> {}{}", *input, ours, args == "()" ? std::string_view() : args}, true);
}

// The fix for a stage that changes nothing, such as x -> identity -> relu or identity(x): leaves it out.
std::optional<Fix> Evaluator::without_identity(const Name& name, const Call& call) const {
  const std::string plain = plain_name(name.text);
  if (plain != "identity" && plain != "noop") {
    return std::nullopt;
  }
  const std::string_view text = sources_.text(call.name_span.file);
  const Span all{call.name_span.file, call.name_span.begin, std::max(call.name_span.end, call.span.end)};
  const std::string_view behind = text.substr(all.end);
  if (call.flowing && behind.starts_with(" -> ")) {
    return replacement("leave it out: it changes nothing", {all.file, all.begin, all.end + 4}, "", true);
  }
  const size_t arrow = text.rfind("->", all.begin);
  if (call.flowing && arrow != std::string_view::npos && text.find_first_not_of(" \n", arrow + 2) == all.begin) {
    const auto from = static_cast<uint32_t>(text.find_last_not_of(" \n", arrow - 1) + 1);
    return replacement("leave it out: it changes nothing", {all.file, from, all.end}, "", true);
  }
  if (call.args.size() == 1 && !call.flowing) {
    return replacement("leave it out: it changes nothing", all,
                       std::string(sources_.text((*call.ast)[call.args[0].value].span)), true);
  }
  return std::nullopt;
}

// Whether the expression means the batch dimension in other frameworks: None, -1, B or batch.
bool Evaluator::is_other_batch(const Ast& ast, ExprId id, const Scope& scope) const {
  const Expr& expr = ast[id];
  const std::string_view text = sources_.text(expr.span);
  constexpr std::array<std::string_view, 7> kWords{"None", "B", "batch", "batch_size", "bs", "null", "BATCH"};
  const bool is_known = expr.kind == ExprKind::kName && scope.file != nullptr && scope.file->find(expr.name.text);
  return text == "-1" || expr.kind == ExprKind::kNone ||
         (expr.kind == ExprKind::kName && !is_known && std::ranges::find(kWords, text) != kWords.end());
}

// The fix for a list of tensors, as in concat([a, b]) or [a, b] -> concat: several tensors are written without
// brackets, or in parentheses before an arrow.
Fix Evaluator::tensors_of_list(const Datum& value, Span at) const {
  const std::string_view text = sources_.text(at);
  if (value.kind != DatumKind::kList || text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return {"write a tensor here: an input, or a tensor computed from it"};
  }
  const std::string inner(text.substr(1, text.size() - 2));
  const std::string_view behind = sources_.text(at.file).substr(at.end);
  const size_t next = behind.find_first_not_of(" \n");
  const bool flows = next != std::string_view::npos && behind.substr(next).starts_with("->");
  return replacement(flows ? "write several tensors in round brackets" : "write the tensors without brackets", at,
                     flows ? fmt::format("({})", inner) : inner, true);
}

// The fix for an argument that an operator has in other frameworks; nullopt if it is not such an argument.
std::optional<Fix> Evaluator::foreign_argument(const Signature& signature, const Call& call, const Name& name) const {
  const auto has = [&](std::string_view param) {
    return std::ranges::any_of(signature.params, [&](const Param& p) { return p.name.text == param; });
  };
  const auto arg = std::ranges::find_if(call.args, [&](const Arg& one) { return one.name.span == name.span; });
  if (arg == call.args.end()) {
    return std::nullopt;
  }
  const Ast& ast = *call.ast;
  const Expr& value = ast[arg->value];
  if (name.text == "betas" && has("beta1") && has("beta2")) {
    const bool is_pair = ast[value.items].size() == 2;
    const auto text = [&](size_t i) { return sources_.text(ast[ast[value.items][i]].span); };
    return is_pair ? replacement("name each of them", arg->span, {"beta1={}, beta2={}", text(0), text(1)}, true)
                   : Fix{"name both: beta1=0.9, beta2=0.999"};
  }
  const std::string_view ours = foreign_name(NameKind::kArgument, name.text);
  if (!ours.empty() && has(ours)) {
    const bool is_angle = ours == "rotate" && value.kind == ExprKind::kNumber;
    return is_angle ? replacement("angles are in radians", arg->span,
                                  {"rotate={}", radians(ast.number(arg->value).value)}, true)
                    : replacement({"`{}` is `{}` here", name.text, ours}, name.span, std::string(ours), true);
  }
  if (signature.name == "random_flip" && name.text == "p") {  // p=0.5 is the fixed behaviour
    const bool is_half = value.kind == ExprKind::kNumber && ast.number(arg->value).value == 0.5;
    const Span brackets{call.span.file, call.name_span.end, call.span.end};
    return is_half && call.args.size() == 1
               ? replacement("leave it out: half of the pictures are swapped", brackets, "", true)
               : Fix{"leave it out: it swaps half of the pictures"};
  }
  return std::nullopt;
}

// Whether an expression could be a path without its quotes: it has only undeclared names and signs that occur in paths.
bool Evaluator::is_unquoted(const Ast& ast, ExprId id, const Scope& scope) const {
  const Expr* leftmost = &ast[id];
  while (leftmost->kind == ExprKind::kBinary || leftmost->kind == ExprKind::kField) {
    leftmost = &ast[leftmost->lhs];
  }
  const std::string_view text = sources_.text(ast[id].span);
  const bool is_path =
      std::ranges::all_of(text, [](char c) { return is_name_char(c) || c == '/' || c == '.' || c == '-'; });
  bool is_known = leftmost->kind != ExprKind::kName || scope.file == nullptr ||
                  bool(scope.file->find(leftmost->name.text)) || scope.file->is_missing(leftmost->name.text) ||
                  scope.file->modules.contains(leftmost->name.text);
  for (const Scope* level = &scope; level != nullptr && !is_known; level = level->parent) {
    is_known = level->locals.contains(leftmost->name.text);
  }
  return is_path && !is_known;
}

}  // namespace xrun::lang
