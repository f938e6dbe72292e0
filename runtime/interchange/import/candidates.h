// The tensors of a model that a tensor of a file may become under a name table, before the model is looked at.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/interchange/names/name_table.h"

namespace xrun::runtime {

// The name of a tensor below the place of the network in the model, or below the classifier.
struct TargetName {
  std::string path;
  bool classes = false;
};

// A line of the table that matches the name of a tensor.
struct Candidate {
  const NameRule* rule = nullptr;
  size_t source = 0;  // index of the pattern in NameRule::from
  std::vector<TargetName> targets;
};

struct NamedTensor {
  bool ignored = false;
  std::vector<Candidate> candidates;  // in the order of the table

  bool is_explained() const { return ignored || !candidates.empty(); }
};

// Looks up a name in a table. First parts that the table drops are dropped, however many there are. REQUIRES: the table
// outlives the result.
NamedTensor look_up(const NameTable& table, std::string_view name);

}  // namespace xrun::runtime
