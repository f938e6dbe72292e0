// Pickles in files and in memory for the tests of runtime/formats/pickle.
#pragma once

#include <fmt/format.h>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/formats/pickle/numpy_values.h"
#include "runtime/formats/pickle/pickle.h"
#include "tests/support/golden.h"

namespace xrun::runtime::testing {

constexpr int kSetType = 1000;

// NumPy's functions, and `set`, which Python calls up to protocol 3.
inline PickleRules plain_rules() {
  const auto numpy = numpy_globals();
  PickleRules rules{.globals = {numpy.begin(), numpy.end()}, .help = "write it again"};
  rules.globals.push_back({"__builtin__", "set", kSetType});
  rules.globals.push_back({"builtins", "set", kSetType});
  rules.globals.push_back({"__builtin__", "frozenset", kSetType});
  rules.globals.push_back({"builtins", "frozenset", kSetType});
  return rules;
}

// A pickle with the memory that it is in.
struct Held {
  std::string bytes;
  std::unique_ptr<PickleInput> input;
  Result<Pickle> parsed;

  const Pickle& pickle() const { return parsed.value(); }
};

inline std::unique_ptr<Held> parse(std::string bytes, const PickleRules& rules = plain_rules(), Bytes offset = 0) {
  auto held = std::make_unique<Held>(
      Held{.bytes = std::move(bytes), .input = nullptr, .parsed = Error{.message = "not parsed"}});
  held->input = pickle_in_memory("t.pkl", std::as_bytes(std::span(held->bytes)));
  held->parsed = parse_pickle(*held->input, offset, rules);
  return held;
}

inline std::string test_file(const std::string& name) {
  return test::read_source_file("tests/runtime/data/files/" + name);
}

// Prints a value as Python would, but strings as hexadecimal bytes, and each form of bytes and sets alike.
inline std::string show(const Pickle& pickle, PickleId id) {
  const PickleValue& value = pickle[id];
  const auto list = [&](const std::vector<PickleId>& items) {
    std::string text;
    for (const PickleId item : items) {
      text += (text.empty() ? "" : ", ") + show(pickle, item);
    }
    return text;
  };
  if (const auto bytes = pickled_bytes(pickle, id).value()) {
    std::string text = "b";
    const auto content = read_pickle_bytes(pickle.input(), *bytes);
    for (const std::byte byte : content.value()) {
      text += fmt::format("{:02x}", std::to_integer<int>(byte));
    }
    return text;
  }
  switch (value.kind) {
    case PickleKind::kNone:
      return "None";
    case PickleKind::kBool:
      return value.number != 0 ? "True" : "False";
    case PickleKind::kInteger:
      return fmt::format("{}", value.number);
    case PickleKind::kBigInteger:
      return "big";
    case PickleKind::kFloat:
      return fmt::format("{}", value.real);
    case PickleKind::kText:
      return "'" + read_pickle_text(pickle.input(), value.string).value() + "'";
    case PickleKind::kTuple:
      return "(" + list(value.items) + ")";
    case PickleKind::kList:
      return "[" + list(value.items) + "]";
    case PickleKind::kDict:
    case PickleKind::kSet:
      return "{" + list(value.items) + "}";
    case PickleKind::kReference:
      return "@" + list(value.items);
    case PickleKind::kGlobal:
      return fmt::format("<{}>", value.number);
    default:
      break;
  }
  if (value.number == kSetType) {
    return "{" + list(pickle[pickle[value.arguments].items.at(0)].items) + "}";
  }
  return fmt::format("<{}>{}{}{}", value.number, show(pickle, value.arguments),
                     value.items.empty() ? "" : "{" + list(value.items) + "}",
                     value.state == kPickledNone ? "" : "!" + show(pickle, value.state));
}
inline std::string show(const Held& held) {
  return held.parsed.ok() ? show(held.pickle(), held.pickle().root()) : held.parsed.error().message;
}

}  // namespace xrun::runtime::testing
