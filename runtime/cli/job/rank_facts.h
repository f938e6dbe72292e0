// Properties that must be equal on all ranks of a run, and the total cores and memory of their hosts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/cli/console/options.h"

namespace xrun::cli {

// Named values that must be equal on all ranks.
using Facts = std::vector<std::pair<std::string, std::string>>;

// The properties of a rank that all ranks exchange.
struct RankFacts {
  std::string host;
  std::string machine;  // name of the machine; several hosts may have it, such as containers
  int cores = 1;
  std::string cpus;  // processors on which the rank may run
  Bytes memory = 0;
  Bytes machine_memory = 0;  // free memory of the machine; `memory` may be limited to less
  Facts build;               // facts about the build, such as "instruction set"
};

// The properties of this process. Errors: those of ops::choose_isa.
Result<RankFacts> own_facts();
// The flags of the command that decide what a rank does. Flags about places and output are left out.
Facts facts_of_command(const GlobalOptions& options, const TrainArgs& args);

// Converts facts to text, one line for each value, and back. Line breaks in values become blanks, which does not affect
// comparisons. A text that ends too early gives the values before its end.
std::string to_text(const Facts& facts);
std::string to_text(const RankFacts& facts);
Facts facts_from(const std::string& text);
RankFacts rank_facts_from(const std::string& text);

// Describes how ranks differ from rank 0: "samples of the source `train`: 60 on rank 0, 59 on rank 2".
//   facts  the facts of each rank, all in the same order
//   first  receives the lowest rank that differs
// Returns at most eight differences.
std::vector<std::string> differences(const std::vector<Facts>& facts, size_t& first);
// Checks that the builds are equal. Errors: XG0833 with the differences.
Status check_alike(const std::vector<RankFacts>& ranks);
// The cores of all hosts of these ranks. Hosts that share a machine together have at most the machine's processors.
int cores_of(const std::vector<RankFacts>& ranks);
// The free memory of all hosts, and of the host with the least free memory. Hosts on one machine share the machine's
// free memory.
struct HostMemory {
  Bytes all = 0;
  Bytes least = 0;
};
HostMemory memory_of(const std::vector<RankFacts>& ranks);
// The host of each rank, counted from 0 in the order of their first ranks.
std::vector<int> nodes_of(const std::vector<RankFacts>& ranks);

}  // namespace xrun::cli
