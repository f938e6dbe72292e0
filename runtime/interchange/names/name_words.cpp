// Tests: tests/runtime/interchange/names/name_table_test.cpp
#include "runtime/interchange/names/name_words.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>

namespace xrun::runtime {
namespace {

constexpr size_t kMostParts = 64;
constexpr std::string_view kClasses = "<classes>";

size_t memory_of(const NamePattern& pattern) {
  size_t bytes = sizeof pattern;
  for (const PatternPart& part : pattern.parts) {
    bytes += sizeof part + part.before.size() + part.capture.size() + part.after.size();
  }
  return bytes;
}

size_t memory_of(const NameTarget& target) {
  size_t bytes = sizeof target;
  for (const TargetPiece& piece : target.pieces) {
    bytes += sizeof piece + piece.text.size() + piece.capture.size();
  }
  return bytes;
}

bool is_name(std::string_view text) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && std::ranges::all_of(text, good);
}

std::string_view trim(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// The content of braces: "s", "i - 1" or "i + 2".
std::optional<TargetPiece> parse_capture(std::string_view inside) {
  TargetPiece piece;
  const size_t sign = inside.find_first_of("+-");
  piece.capture = trim(inside.substr(0, sign));
  if (!is_name(piece.capture)) {
    return std::nullopt;
  }
  if (sign == std::string_view::npos) {
    return piece;
  }
  const std::string_view number = trim(inside.substr(sign + 1));
  const auto [end, fault] = std::from_chars(number.data(), number.data() + number.size(), piece.add);
  if (fault != std::errc() || end != number.data() + number.size() || number.size() > 6 || piece.add < 0) {
    return std::nullopt;
  }
  piece.add = inside[sign] == '-' ? -piece.add : piece.add;
  piece.is_sum = true;
  return piece;
}

// Calls text(...) for each fixed text of a word, and capture(...) for the content of each pair of braces.
template <typename Text, typename Capture>
WordFault each_piece(std::string_view word, const Text& text, const Capture& capture) {
  for (size_t at = 0; at < word.size();) {
    const size_t open = std::min(word.find('{', at), word.size());
    if (open > at) {
      text(word.substr(at, open - at));
    }
    if (open == word.size()) {
      break;
    }
    const size_t close = word.find('}', open);
    const auto piece =
        close == std::string_view::npos ? std::nullopt : parse_capture(word.substr(open + 1, close - open - 1));
    if (!piece) {
      return {fmt::format("`{}` has braces without a capture", word),
              "write {name}, or after the arrow {name - 1}, with letters, digits and _"};
    }
    if (WordFault found = capture(*piece); !found.message.empty()) {
      return found;
    }
    at = close + 1;
  }
  return {};
}

WordFault add_capture(std::string_view word, const TargetPiece& piece, NamePattern& pattern) {
  PatternPart& part = pattern.parts.back();
  if (!part.capture.empty()) {
    return {fmt::format("`{}` captures twice between two dots", word), "one part of a name has one capture"};
  }
  if (piece.is_sum) {
    return {fmt::format("`{}` has a sum before the arrow", word),
            "capture the number as {name}, and add to it after the arrow"};
  }
  part.capture = piece.capture;
  return {};
}

}  // namespace

WordFault parse_pattern(std::string_view word, bool may_be_anywhere, NamePattern& pattern) {
  pattern = {};
  std::string_view rest = word;
  if (rest.starts_with("*.")) {
    if (!may_be_anywhere) {
      return {fmt::format("`{}` begins with `*.`", word),
              "only `ignore` takes names anywhere; capture parts as {name}"};
    }
    pattern.anywhere = true;
    rest.remove_prefix(2);
  }
  pattern.parts.emplace_back();
  const auto add_text = [&](std::string_view text) {
    for (const char c : text) {
      PatternPart& part = pattern.parts.back();
      if (c == '.') {
        pattern.parts.emplace_back();
      } else {
        (part.capture.empty() ? part.before : part.after) += c;
      }
    }
  };
  WordFault found =
      each_piece(rest, add_text, [&](const TargetPiece& piece) { return add_capture(word, piece, pattern); });
  if (!found.message.empty()) {
    return found;
  }
  if (rest.find('*') != std::string_view::npos) {
    return {fmt::format("`{}` has a `*`", word), "capture a part as {name}; everything below a path is included"};
  }
  if (pattern.parts.size() > kMostParts) {
    return {"a name of too many parts", fmt::format("write at most {} parts", kMostParts)};
  }
  for (const PatternPart& part : pattern.parts) {
    if (part.before.empty() && part.capture.empty()) {
      return {fmt::format("`{}` has an empty part", word), "write something between two dots"};
    }
  }
  return {};
}

WordFault parse_target(std::string_view word, NameTarget& target) {
  target = {};
  std::string_view rest = word;
  if (rest.starts_with(kClasses)) {
    target.classes = true;
    rest.remove_prefix(kClasses.size());
    if (!rest.empty() && !rest.starts_with('.')) {
      return {fmt::format("`{}` has no dot after `<classes>`", word), "write <classes>, or <classes>.weight"};
    }
    rest.remove_prefix(rest.empty() ? 0 : 1);
    if (rest.empty() && word.size() > kClasses.size()) {
      return {fmt::format("`{}` has an empty part", word), "write <classes>, or <classes>.weight"};
    }
  }
  WordFault found = each_piece(
      rest, [&](std::string_view text) { target.pieces.push_back({.text = std::string(text), .capture = {}}); },
      [&](const TargetPiece& piece) {
        target.pieces.push_back(piece);
        return WordFault();
      });
  if (!found.message.empty()) {
    return found;
  }
  const bool dots =
      ("." + std::string(rest) + ".").find("..") != std::string::npos && !(target.classes && rest.empty());
  if (dots || rest.find_first_of("*<>") != std::string_view::npos) {
    return {fmt::format("`{}` is not a path of a model", word), "write it as `xrun show` prints it: layer1.conv"};
  }
  return {};
}

NamePattern joined(const NamePattern& outer, const NamePattern& inner) {
  NamePattern whole = outer;
  whole.parts.insert(whole.parts.end(), inner.parts.begin(), inner.parts.end());
  return whole;
}

NameTarget joined(const NameTarget& outer, const NameTarget& inner) {
  NameTarget whole = outer;
  whole.pieces.push_back({.text = ".", .capture = {}});
  whole.pieces.insert(whole.pieces.end(), inner.pieces.begin(), inner.pieces.end());
  return whole;
}

size_t expanded_memory(std::span<const NamePrefix> prefixes, std::span<const NamePattern> from,
                       std::span<const NameTarget> to) {
  size_t line = 0;
  for (const NamePattern& one : from) {
    line += memory_of(one);
  }
  for (const NameTarget& one : to) {
    line += memory_of(one);
  }
  size_t bytes = prefixes.empty() ? line : 0;
  for (const NamePrefix& prefix : prefixes) {
    bytes += line + from.size() * memory_of(prefix.from) + to.size() * memory_of(prefix.to);
  }
  return bytes;
}

}  // namespace xrun::runtime
