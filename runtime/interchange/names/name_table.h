// Name tables: texts that give the tensors of other programs their names in a model (docs/reference/name_tables.md has
// the language). `xrun import` has tables for published networks (name_tables.h), and reads tables of users.
//
//   table  = "names" "1" { line }
//   line   = "title" STRING | "note" STRING | "like" WORD | "drop" WORD { "," WORD } | "ignore" PATTERN | within | rule
//   within = "within" pair { "or" pair } "{" { "ignore" PATTERN | within | rule } "}"
//   pair   = PATTERN "->" TARGET
//   rule   = PATTERN { "," PATTERN } "->" TARGET { "," TARGET } [ "transposed" | "reshaped" | "by" "rank" ]
//
// A line ends with its text line, or after a comma, or before "or". `#` begins a comment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "runtime/interchange/names/name_pattern.h"

namespace xrun::runtime {

// One line of a table. If it has several patterns, their tensors are joined along their rows; if it has several
// targets, the rows of one tensor are divided among them.
struct NameRule {
  enum class How { kAsIs, kTransposed, kReshaped, kByRank };
  std::vector<NamePattern> from;
  std::vector<NameTarget> to;
  How how = How::kAsIs;
  Span span;
};

struct NameTable {
  std::string name;               // "torchvision_resnet"; for a file its path
  std::string title;              // "torchvision ResNet"
  std::string like;               // the name of the table whose lines follow those of this one; may be empty
  std::vector<std::string> drop;  // first parts that names may have in addition, such as "module"
  std::vector<NamePattern> ignored;
  std::vector<NameRule> rules;     // in order: the first line whose target is a tensor of the model decides
  std::vector<std::string> notes;  // sentences about what a file of weights does not say

  size_t lines() const { return ignored.size() + rules.size(); }
  // Whether the first pattern matches every name. Then only tensors that the model has speak for the table.
  bool matches_all() const;
};

// The largest text of a table, in bytes, and the largest number of its lines, also those of `ignore`, and of their
// bytes in memory after `within` was expanded.
inline constexpr size_t kMostTableBytes = size_t{1} << 20;
inline constexpr size_t kMostTableRules = 20'000;
inline constexpr size_t kMostTableMemory = size_t{256} << 20;

// Parses file `file` of `sources`. Faults are added to `diagnostics` (XG0940); if there are errors, returns nullopt.
// Threads: any.
std::optional<NameTable> parse_names(std::string name, const SourceMap& sources, int32_t file,
                                     Diagnostics& diagnostics);

// Appends the lines of the table that `table` is like. REQUIRES: `base` is the table with that name.
void extend(NameTable& table, const NameTable& base);

}  // namespace xrun::runtime
