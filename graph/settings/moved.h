// `moved "a" -> "b"`: names that tensors and parts of a model had in earlier texts. Checkpoints may have the earlier
// names; random numbers and the math digest keep the first names, so that a renamed model is still the same run.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/source.h"

namespace xrun {

// Attribute of an operator that draws numbers (OpDef::random) and was renamed: the path that keys its stream.
inline constexpr std::string_view kStreamAttr = "stream";

// One move: the name of a tensor, or a path, which stands for everything at and below it.
struct Moved {
  std::string from;
  std::string to;
  Span span;  // place of the declaration
};

// These functions follow chains, such as "a" -> "b", "b" -> "c". If several moves fit a name, the one with the longest
// path applies.
//
// first_name returns the name of a tensor or a part before all moves, and last_name its name after them. REQUIRES: the
// moves do not lead from the name back to it.
std::string first_name(std::span<const Moved> moved, std::string_view name);
std::string last_name(std::span<const Moved> moved, std::string_view name);
// Whether the moves lead from `name` back to it.
bool leads_back(std::span<const Moved> moved, std::string_view name);

}  // namespace xrun
