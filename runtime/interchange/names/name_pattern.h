// Patterns of tensor names in name tables (name_table.h). A name is a list of parts between dots. A pattern matches the
// first parts of a name, so it stands for a tensor or for everything below a path. The target of a pattern is a name
// into which the parts that the pattern captured are put.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xrun::runtime {

// One part of a pattern: a fixed text, or a text before and after a capture, such as "layer{s}".
struct PatternPart {
  std::string before;
  std::string capture;  // the name in braces; empty: the part is the text `before`
  std::string after;
};

struct NamePattern {
  std::vector<PatternPart> parts;
  bool anywhere = false;  // written "*.": the parts may also be in the middle of the name
};

// One piece of the text of a target: a fixed text, or a captured text, to which a number may be added.
struct TargetPiece {
  std::string text;  // if `capture` is empty
  std::string capture;
  bool is_sum = false;  // "{i - 1}": the capture is a whole number, and `add` is added
  int64_t add = 0;
};

struct NameTarget {
  bool classes = false;             // written "<classes>": the path is below the classifier of the model
  std::vector<TargetPiece> pieces;  // the path without "<classes>"
};

// The captured texts by their names.
using Captures = std::map<std::string, std::string, std::less<>>;

// Matches the first parts of a name. Returns the number of parts that matched; nullopt: the pattern does not match.
// `captures` gets the captured texts, which are not empty. A capture that occurs twice has the same text in both
// places.
std::optional<size_t> match(const NamePattern& pattern, std::span<const std::string_view> parts, Captures& captures);

// Returns the path of a target. Nullopt: a capture that is added to is not a whole number, or the sum is negative.
std::optional<std::string> fill(const NameTarget& target, const Captures& captures);

// The texts of a pattern and of a target for messages, as a table writes them.
std::string to_text(const NamePattern& pattern);
std::string to_text(const NameTarget& target);

}  // namespace xrun::runtime
