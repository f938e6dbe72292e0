// Patterns for file names: `*`, `?`, ranges `{01..15}`, which include both ends and keep leading zeros, and
// alternatives `{a,b}`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"

namespace xrun::runtime {

class Glob {
 public:
  // Parses a pattern. Errors: XG0413 an unclosed brace, a descending range, or more than `most` alternatives.
  static Result<Glob> parse(std::string_view pattern, size_t most = kMostAlternatives);

  static constexpr size_t kMostAlternatives = 65'536;

  bool matches(std::string_view name) const;
  const std::vector<std::string>& alternatives() const { return alternatives_; }  // pattern with all braces expanded

 private:
  std::vector<std::string> alternatives_;
};

}  // namespace xrun::runtime
