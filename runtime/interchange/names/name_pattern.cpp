#include "runtime/interchange/names/name_pattern.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace xrun::runtime {
namespace {

bool match_part(const PatternPart& part, std::string_view text, Captures& captures) {
  if (part.capture.empty()) {
    return text == part.before;
  }
  if (text.size() <= part.before.size() + part.after.size() || !text.starts_with(part.before) ||
      !text.ends_with(part.after)) {
    return false;
  }
  const std::string_view found = text.substr(part.before.size(), text.size() - part.before.size() - part.after.size());
  return captures.try_emplace(part.capture, found).first->second == found;
}

bool match_at(const NamePattern& pattern, std::span<const std::string_view> parts, Captures& captures) {
  Captures found;
  for (size_t i = 0; i < pattern.parts.size(); ++i) {
    if (!match_part(pattern.parts[i], parts[i], found)) {
      return false;
    }
  }
  captures = std::move(found);
  return true;
}

// A whole number without a sign, a leading zero or more than nine digits.
std::optional<int64_t> whole(std::string_view text) {
  int64_t number = 0;
  const bool digits = !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == text.npos;
  if (!digits || (text.size() > 1 && text[0] == '0')) {
    return std::nullopt;
  }
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::optional<size_t> match(const NamePattern& pattern, std::span<const std::string_view> parts, Captures& captures) {
  const size_t count = pattern.parts.size();
  for (size_t first = 0; first + count <= parts.size(); ++first) {
    if (match_at(pattern, parts.subspan(first, count), captures)) {
      return first + count;
    }
    if (!pattern.anywhere) {
      break;
    }
  }
  return std::nullopt;
}

std::optional<std::string> fill(const NameTarget& target, const Captures& captures) {
  std::string path;
  for (const TargetPiece& piece : target.pieces) {
    if (piece.capture.empty()) {
      path += piece.text;
      continue;
    }
    const auto captured = captures.find(piece.capture);
    if (captured == captures.end()) {
      return std::nullopt;
    }
    if (!piece.is_sum) {
      path += captured->second;
      continue;
    }
    const auto number = whole(captured->second);
    if (!number || *number + piece.add < 0) {
      return std::nullopt;
    }
    path += std::to_string(*number + piece.add);
  }
  return path;
}

std::string to_text(const NamePattern& pattern) {
  std::string text = pattern.anywhere ? "*." : "";
  for (const PatternPart& part : pattern.parts) {
    text += &part == pattern.parts.data() ? "" : ".";
    text += part.before + (part.capture.empty() ? "" : "{" + part.capture + "}") + part.after;
  }
  return text;
}

std::string to_text(const NameTarget& target) {
  std::string text = target.classes ? "<classes>" : "";
  text += target.classes && !target.pieces.empty() ? "." : "";
  for (const TargetPiece& piece : target.pieces) {
    text += piece.capture.empty() ? piece.text
            : !piece.is_sum       ? "{" + piece.capture + "}"
                                  : fmt::format("{{{} {} {}}}", piece.capture, piece.add < 0 ? "-" : "+",
                                          piece.add < 0 ? -piece.add : piece.add);
  }
  return text;
}

}  // namespace xrun::runtime
