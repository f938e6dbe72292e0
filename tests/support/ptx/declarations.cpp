// Types and variables of PTX.
// Tests: tests/ptx/parser_test.cpp
#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <utility>

#include "tests/support/ptx/ptx_parser.h"

namespace xrun::ptx {

namespace {

// Reads the initial values of an array, `{1, 2}` or a single value, as bytes.
Status parse_values(Cursor& at, Type type, Variable& variable) {
  const bool list = at.accept('{');
  const size_t width = static_cast<size_t>(type.bits / 8);
  do {
    const bool negative = at.accept('-');
    const Token& value = at.take();
    const bool number = value.kind == TokenKind::kNumber && !type.is_float();
    if (!number && !(value.kind == TokenKind::kFloat && value.float_bits == type.bits)) {
      return text_error(value.line, fmt::format("`{}` is not an initial value of the type", value.text),
                        "addresses as initial values are not supported");
    }
    const uint64_t bits = negative ? uint64_t{0} - value.bits : value.bits;
    for (size_t i = 0; i < width; ++i) {
      variable.initial.push_back(static_cast<std::byte>(bits >> (8 * i)));
    }
    if (variable.initial.size() > variable.bytes) {
      return text_error(value.line, fmt::format("`{}` has more initial values than elements", variable.name));
    }
  } while (list && at.accept(','));
  return list ? at.expect('}') : Status();
}

}  // namespace

bool find_type(std::string_view name, Type& type) {
  static constexpr std::pair<std::string_view, Type> kTypes[] = {
      {"u8", {TypeKind::kUnsigned, 8}},   {"u16", {TypeKind::kUnsigned, 16}},  {"u32", {TypeKind::kUnsigned, 32}},
      {"u64", {TypeKind::kUnsigned, 64}}, {"s8", {TypeKind::kSigned, 8}},      {"s16", {TypeKind::kSigned, 16}},
      {"s32", {TypeKind::kSigned, 32}},   {"s64", {TypeKind::kSigned, 64}},    {"b8", {TypeKind::kBits, 8}},
      {"b16", {TypeKind::kBits, 16}},     {"b32", {TypeKind::kBits, 32}},      {"b64", {TypeKind::kBits, 64}},
      {"f16", {TypeKind::kFloat, 16}},    {"f32", {TypeKind::kFloat, 32}},     {"f64", {TypeKind::kFloat, 64}},
      {"bf16", {TypeKind::kBfloat, 16}},  {"bf16x2", {TypeKind::kBfloat, 32}}, {"pred", {TypeKind::kPredicate, 1}},
      {"f16x2", {TypeKind::kHalves, 32}}, {"e4m3x2", {TypeKind::kE4m3, 16}},   {"e5m2x2", {TypeKind::kE5m2, 16}},
      {"e4m3", {TypeKind::kE4m3, 8}},     {"e5m2", {TypeKind::kE5m2, 8}},      {"tf32", {TypeKind::kTf32, 32}},
  };
  const auto* const found = std::ranges::find(kTypes, name, [](const auto& entry) { return entry.first; });
  if (found == std::end(kTypes)) {
    return false;
  }
  type = found->second;
  return true;
}

int target_number(std::string_view target) {
  int number = 0;
  if (target.starts_with("sm_")) {
    std::from_chars(target.data() + 3, target.data() + target.size(), number);
  }
  return number;
}

Result<Variable> parse_variable(Cursor& at, Space space, uint64_t& bytes_left) {
  Variable variable{.name = {}, .space = space, .bytes = 0, .align = 0, .address = 0, .initial = {}};
  Type type;
  uint64_t elements = 1;
  while (true) {
    if (at.at_word(".align")) {
      at.take();
      XRUN_ASSIGN(variable.align, at.number());
      if (!std::has_single_bit(variable.align) || variable.align > 4096) {
        return at.error(fmt::format("{} is not an alignment", variable.align));
      }
    } else if (at.at_word(".v2") || at.at_word(".v4")) {
      elements = at.take().text == ".v2" ? 2 : 4;
    } else if (at.at_word(".ptr") || at.at_word(".global") || at.at_word(".shared") || at.at_word(".const")) {
      at.take();  // a hint on the memory to which a parameter points
    } else if (at.peek().kind == TokenKind::kWord && at.peek().text.starts_with('.') && type.bits == 0) {
      if (!find_type(at.peek().text.substr(1), type) || type.bits < 8) {
        return at.error(fmt::format("`{}` is not a type of variables", at.peek().text));
      }
      at.take();
    } else {
      break;
    }
  }
  XRUN_ASSIGN(const std::string_view name, at.word("the name of a variable"));
  variable.name = name;
  if (type.bits == 0) {
    return at.error(fmt::format("`{}` has no type", name));
  }
  const uint64_t width = static_cast<uint64_t>(type.bits / 8) * elements;
  variable.align = std::max(variable.align, width);
  variable.bytes = width;
  while (at.accept('[')) {
    if (at.accept(']')) {
      variable.bytes = 0;
      continue;
    }
    XRUN_ASSIGN(const uint64_t count, at.number());
    if (count > bytes_left || variable.bytes * count > bytes_left) {
      return at.error(fmt::format("`{}` and the arrays before it have more than 64 MiB", name));
    }
    variable.bytes *= count;
    XRUN_TRY(at.expect(']'));
  }
  bytes_left -= std::min(bytes_left, variable.bytes);
  if (space != Space::kParam && at.accept('=')) {
    XRUN_TRY(parse_values(at, type, variable));
  }
  if (variable.bytes == 0 && space != Space::kShared) {
    return at.error(fmt::format("`{}` has no size", name));
  }
  return variable;
}

}  // namespace xrun::ptx
