// The instructions of numbers, strings, simple containers and the memo, which differ in operands only, and the table of
// all instructions (pickle_machine.h). Instructions with a line as operand are those of protocol 0.
// Tests: tests/runtime/formats/pickle/pickle_test.cpp
#include <bit>
#include <charconv>
#include <fmt/format.h>
#include <limits>

#include "runtime/formats/pickle/pickle_machine.h"

namespace xrun::runtime {
namespace {

// Parses all of `digits`, which Python's repr wrote.
template <class Number>
std::errc parse(std::string_view digits, Number& number) {
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return fault != std::errc()                   ? fault
         : end == digits.data() + digits.size() ? std::errc()
                                                : std::errc::invalid_argument;
}

}  // namespace

// ---- numbers --------------------------------------------------------------------------------------------------

template <PickleId id>
Status PickleMachine::constant() {
  return push(id);
}

template <size_t width, bool is_signed>
Status PickleMachine::integer() {
  XRUN_ASSIGN(const uint64_t bits, cursor_.number(width));
  const auto number = is_signed ? int64_t{static_cast<int32_t>(bits)} : static_cast<int64_t>(bits);
  return push_new({.kind = PickleKind::kInteger, .number = number});
}

// A size, then a number in two's complement.
template <size_t width>
Status PickleMachine::long_integer() {
  XRUN_ASSIGN(const uint64_t size, cursor_.number(width));
  if (size > sizeof(int64_t)) {
    XRUN_ASSIGN(const PickleString bytes, cursor_.skip(size));
    return push_new({.kind = PickleKind::kBigInteger, .string = bytes});
  }
  XRUN_ASSIGN(const uint64_t bits, cursor_.number(size));
  const auto shift = static_cast<int>(64 - 8 * size);
  return push_new(
      {.kind = PickleKind::kInteger, .number = size == 0 ? 0 : static_cast<int64_t>(bits << shift) >> shift});
}

Status PickleMachine::push_integer(std::string_view digits) {
  int64_t number = 0;
  const std::errc fault = parse(digits, number);
  if (fault == std::errc::result_out_of_range) {
    return push_new({.kind = PickleKind::kBigInteger});
  }
  return fault == std::errc() ? push_new({.kind = PickleKind::kInteger, .number = number})
                              : damaged(fmt::format("{} has no decimal number", instruction_));
}

// INT and LONG; protocol 0 and 1 write bools as INT 00 and 01.
Status PickleMachine::integer_line() {
  XRUN_ASSIGN(const std::string line, cursor_.line("a number"));
  std::string_view digits = line;
  if (instruction_ == "LONG" && digits.ends_with('L')) {
    digits.remove_suffix(1);
  } else if (instruction_ == "INT" && (digits == "01" || digits == "00")) {
    return push(digits == "01" ? kTrue : kFalse);
  }
  return push_integer(digits);
}

Status PickleMachine::float_line() {
  XRUN_ASSIGN(const std::string line, cursor_.line("a number"));
  double real = 0;
  const std::errc fault = parse(std::string_view(line), real);
  return fault == std::errc() ? push_new({.kind = PickleKind::kFloat, .real = real})
                              : damaged("FLOAT has no decimal number");
}

Status PickleMachine::binary_float() {
  XRUN_ASSIGN(const uint64_t little, cursor_.number(sizeof(double)));
  return push_new({.kind = PickleKind::kFloat, .real = std::bit_cast<double>(__builtin_bswap64(little))});
}

// ---- strings --------------------------------------------------------------------------------------------------

template <PickleKind kind, PickleCoding coding, size_t width>
Status PickleMachine::string() {
  XRUN_ASSIGN(const uint64_t size, cursor_.number(width));
  XRUN_ASSIGN(PickleString place, cursor_.skip(size));
  place.coding = coding;
  return push_new({.kind = kind, .string = place});
}

Status PickleMachine::string_line() {
  XRUN_ASSIGN(PickleString place, cursor_.skip_line());
  XRUN_ASSIGN(const uint64_t first, place.size < 2 ? Result<uint64_t>(0) : byte_at(place.offset));
  XRUN_ASSIGN(const uint64_t last, place.size < 2 ? Result<uint64_t>(0) : byte_at(place.offset + place.size - 1));
  if (first != last || (first != '\'' && first != '"')) {
    return damaged("STRING is not in quotes");
  }
  return push_new({.kind = PickleKind::kString,
                   .string = {.offset = place.offset + 1, .size = place.size - 2, .coding = PickleCoding::kEscaped}});
}

Status PickleMachine::text_line() {
  XRUN_ASSIGN(PickleString place, cursor_.skip_line());
  place.coding = PickleCoding::kUnicodeEscaped;
  return push_new({.kind = PickleKind::kText, .string = place});
}

Status PickleMachine::reference_line() {
  XRUN_TRY(text_line());
  return reference();
}

// ---- containers -----------------------------------------------------------------------------------------------

template <PickleKind kind>
Status PickleMachine::empty() {
  return push_new({.kind = kind});
}

template <PickleKind kind>
Status PickleMachine::from_mark() {
  XRUN_ASSIGN(auto items, pop_to_mark());
  if (kind == PickleKind::kDict && items.size() % 2 != 0) {
    return damaged("DICT has a key without a value");
  }
  return push_new({.kind = kind, .items = std::move(items)});
}

template <size_t count>
Status PickleMachine::short_tuple() {
  std::vector<PickleId> items(count);
  for (size_t i = count; i-- > 0;) {
    XRUN_ASSIGN(items[i], pop_value());
  }
  return push_new({.kind = PickleKind::kTuple, .items = std::move(items)});
}

// ---- memo -----------------------------------------------------------------------------------------------------

template <size_t width>
Status PickleMachine::put() {
  XRUN_ASSIGN(const uint64_t key, cursor_.number(width));
  return store(key);
}

template <size_t width>
Status PickleMachine::get() {
  XRUN_ASSIGN(const uint64_t key, cursor_.number(width));
  return fetch(key);
}

Result<uint64_t> PickleMachine::memo_key() {
  XRUN_ASSIGN(const std::string line, cursor_.line("a number"));
  uint64_t key = 0;
  if (parse(std::string_view(line), key) != std::errc()) {
    return damaged(fmt::format("{} has no decimal number", instruction_));
  }
  return key;
}

Status PickleMachine::put_line() {
  XRUN_ASSIGN(const uint64_t key, memo_key());
  return store(key);
}

Status PickleMachine::get_line() {
  XRUN_ASSIGN(const uint64_t key, memo_key());
  return fetch(key);
}

// ---- the table ------------------------------------------------------------------------------------------------

using Machine = PickleMachine;
using Kind = PickleKind;
using Coding = PickleCoding;

const PickleMachine::Instruction PickleMachine::kInstructions[] = {
    {0x80, "PROTO", &Machine::protocol},
    {0x95, "FRAME", &Machine::frame},
    {'.', "STOP", &Machine::stop},
    {'N', "NONE", &Machine::constant<kPickledNone>},
    {0x88, "NEWTRUE", &Machine::constant<kTrue>},
    {0x89, "NEWFALSE", &Machine::constant<kFalse>},
    {'I', "INT", &Machine::integer_line},
    {'L', "LONG", &Machine::integer_line},
    {'K', "BININT1", &Machine::integer<1, false>},
    {'M', "BININT2", &Machine::integer<2, false>},
    {'J', "BININT", &Machine::integer<4, true>},
    {0x8a, "LONG1", &Machine::long_integer<1>},
    {0x8b, "LONG4", &Machine::long_integer<4>},
    {'F', "FLOAT", &Machine::float_line},
    {'G', "BINFLOAT", &Machine::binary_float},
    {'S', "STRING", &Machine::string_line},
    {'U', "SHORT_BINSTRING", &Machine::string<Kind::kString, Coding::kRaw, 1>},
    {'T', "BINSTRING", &Machine::string<Kind::kString, Coding::kRaw, 4>},
    {'C', "SHORT_BINBYTES", &Machine::string<Kind::kBytes, Coding::kRaw, 1>},
    {'B', "BINBYTES", &Machine::string<Kind::kBytes, Coding::kRaw, 4>},
    {0x8e, "BINBYTES8", &Machine::string<Kind::kBytes, Coding::kRaw, 8>},
    {0x96, "BYTEARRAY8", &Machine::string<Kind::kBytes, Coding::kRaw, 8>},
    {'V', "UNICODE", &Machine::text_line},
    {0x8c, "SHORT_BINUNICODE", &Machine::string<Kind::kText, Coding::kUtf8, 1>},
    {'X', "BINUNICODE", &Machine::string<Kind::kText, Coding::kUtf8, 4>},
    {0x8d, "BINUNICODE8", &Machine::string<Kind::kText, Coding::kUtf8, 8>},
    {'(', "MARK", &Machine::mark},
    {')', "EMPTY_TUPLE", &Machine::empty<Kind::kTuple>},
    {0x85, "TUPLE1", &Machine::short_tuple<1>},
    {0x86, "TUPLE2", &Machine::short_tuple<2>},
    {0x87, "TUPLE3", &Machine::short_tuple<3>},
    {'t', "TUPLE", &Machine::from_mark<Kind::kTuple>},
    {']', "EMPTY_LIST", &Machine::empty<Kind::kList>},
    {'l', "LIST", &Machine::from_mark<Kind::kList>},
    {'a', "APPEND", &Machine::append},
    {'e', "APPENDS", &Machine::append_from_mark},
    {'}', "EMPTY_DICT", &Machine::empty<Kind::kDict>},
    {'d', "DICT", &Machine::from_mark<Kind::kDict>},
    {'s', "SETITEM", &Machine::set_item},
    {'u', "SETITEMS", &Machine::set_items_from_mark},
    {0x8f, "EMPTY_SET", &Machine::empty<Kind::kSet>},
    {0x90, "ADDITEMS", &Machine::add_to_set},
    {0x91, "FROZENSET", &Machine::from_mark<Kind::kSet>},
    {'0', "POP", &Machine::pop},
    {'1', "POP_MARK", &Machine::pop_mark},
    {'2', "DUP", &Machine::duplicate},
    {'p', "PUT", &Machine::put_line},
    {'q', "BINPUT", &Machine::put<1>},
    {'r', "LONG_BINPUT", &Machine::put<4>},
    {0x94, "MEMOIZE", &Machine::memoize},
    {'g', "GET", &Machine::get_line},
    {'h', "BINGET", &Machine::get<1>},
    {'j', "LONG_BINGET", &Machine::get<4>},
    {'c', "GLOBAL", &Machine::global},
    {0x93, "STACK_GLOBAL", &Machine::stack_global},
    {'R', "REDUCE", &Machine::call},
    {0x81, "NEWOBJ", &Machine::call},
    {'b', "BUILD", &Machine::build},
    {'P', "PERSID", &Machine::reference_line},
    {'Q', "BINPERSID", &Machine::reference},
    {'i', "INST", nullptr},
    {'o', "OBJ", nullptr},
    {0x82, "EXT1", nullptr},
    {0x83, "EXT2", nullptr},
    {0x84, "EXT4", nullptr},
    {0x92, "NEWOBJ_EX", nullptr},
    {0x97, "NEXT_BUFFER", nullptr},
    {0x98, "READONLY_BUFFER", nullptr},
    {},
};

}  // namespace xrun::runtime
