// Tests: tests/runtime/data/readers/folder_test.cpp
#include "runtime/data/readers/glob.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>

namespace xrun::runtime {
namespace {

Error bad_pattern(std::string_view pattern, std::string_view why) {
  return {.kind = ErrorKind::kContent,
          .code = "XG0413",
          .message = fmt::format("the pattern \"{}\" {}", pattern, why),
          .help = "patterns may have *, ?, {01..15} (with both ends) and {a,b}"};
}

std::optional<int64_t> whole(std::string_view text) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = fault == std::errc() && end == text.data() + text.size() && value >= 0;
  return good ? std::optional(value) : std::nullopt;
}

// Returns the alternatives that the text between two braces stands for.
Result<std::vector<std::string>> spread(std::string_view inside, std::string_view pattern, size_t most) {
  std::vector<std::string> out;
  if (const size_t dots = inside.find(".."); dots != std::string_view::npos) {
    const std::string_view first = inside.substr(0, dots);
    const auto low = whole(first);
    const auto high = whole(inside.substr(dots + 2));
    if (!low || !high || *low > *high || static_cast<uint64_t>(*high - *low) >= most) {
      return bad_pattern(pattern, fmt::format("has the wrong range {{{}}}", inside));
    }
    for (int64_t i = *low; i <= *high; ++i) {
      out.push_back(fmt::format("{:0{}}", i, first.size()));
    }
    return out;
  }
  while (true) {
    const size_t comma = inside.find(',');
    out.emplace_back(inside.substr(0, comma));
    if (comma == std::string_view::npos) {
      return out;
    }
    inside.remove_prefix(comma + 1);
  }
}

// Matches a name with a pattern, usually in linear time: after a mismatch, only the last `*` is extended.
bool match(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] != '*' && pattern[p] == name[n]))) {
      ++p;
      ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace

Result<Glob> Glob::parse(std::string_view pattern, size_t most) {
  Glob made;
  made.alternatives_ = {""};
  for (size_t at = 0; at < pattern.size();) {
    const size_t open = std::min(pattern.find('{', at), pattern.size());
    std::vector<std::string> parts{std::string(pattern.substr(at, open - at))};
    at = open;
    if (parts[0].empty()) {
      const size_t close = pattern.find('}', open);
      if (close == std::string_view::npos) {
        return bad_pattern(pattern, "has no } for its {");
      }
      XRUN_ASSIGN(parts, spread(pattern.substr(open + 1, close - open - 1), pattern, most));
      at = close + 1;
    }
    if (made.alternatives_.size() * parts.size() > most) {
      return bad_pattern(pattern, "has too many alternatives");
    }
    std::vector<std::string> next;
    for (const std::string& before : made.alternatives_) {
      for (const std::string& part : parts) {
        next.push_back(before + part);
      }
    }
    made.alternatives_ = std::move(next);
  }
  return made;
}

bool Glob::matches(std::string_view name) const {
  return std::ranges::any_of(alternatives_, [&](const std::string& pattern) { return match(pattern, name); });
}

}  // namespace xrun::runtime
