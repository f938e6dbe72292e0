// The words of a line in a name table: patterns and targets (name_pattern.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/interchange/names/name_pattern.h"

namespace xrun::runtime {

// The fault of a word, in the form of a message and how to fix it; empty: there is none.
struct WordFault {
  std::string message;
  std::string help;
};

// Parses "layer{s}.{i}.conv1", and "*.name" if `may_be_anywhere` is set. A part has at most one capture.
WordFault parse_pattern(std::string_view word, bool may_be_anywhere, NamePattern& pattern);
// Parses "layer{s}.repeat.{i - 1}.conv" and "<classes>".
WordFault parse_target(std::string_view word, NameTarget& target);

// The pattern and the target of a line inside `within`.
NamePattern joined(const NamePattern& outer, const NamePattern& inner);
NameTarget joined(const NameTarget& outer, const NameTarget& inner);

// One pair of the heading of `within`.
struct NamePrefix {
  NamePattern from;
  NameTarget to;
};

// The bytes in memory of patterns and targets that are put below each of the prefixes; no prefix: of these alone.
size_t expanded_memory(std::span<const NamePrefix> prefixes, std::span<const NamePattern> from,
                       std::span<const NameTarget> to);

}  // namespace xrun::runtime
