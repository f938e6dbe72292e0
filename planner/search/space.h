// The space of a search: every legal combination of stages, replicas and micro-batches under the hints of a schedule,
// or an error that names the hint that cannot be met, and values that can.
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/machine.h"
#include "planner/search/chain.h"
#include "planner/search/partition.h"

namespace xrun::planner {

struct Setting {
  int stages = 1;
  int replicas = 1;
  int micro_batches = 1;  // in the global batch
  PipelineKind pipeline = PipelineKind::kGpipe;
  int head_devices = 0;  // the first devices, which have the shards of heads; 0: all, or as in hints
  bool operator==(const Setting&) const = default;
};

// Whether hints place the shards of some head.
bool places_heads(const ScheduleSpec& schedule);

std::string to_text(const Setting& setting);  // "stages = 2, micro_batches = 4, pipeline = one_f_one_b"

// The divisors of n, ascending, 1 and n included; takes time in proportion to the square root of n.
std::vector<int64_t> divisors(int64_t n);

// Partials of gradients over all replicas (docs/internals/determinism.md, "Gradient partials"): min(4, row blocks) if
// deterministic, else one for each worker of a replica's device, as far as a micro-batch has row blocks for them.
int partials_of(const Setting& setting, bool deterministic, int64_t blocks, const Machine& machine);

// Settings in a fixed order, without duplicates. Errors, all kContent with the place of the hint: XG0602 stages, XG0603
// replicas, XG0605 micro-batches without whole row blocks, XG0606 hints that exclude one another, XG0607 granularity =
// step under one_f_one_b, or different granularities of heads.
Result<std::vector<Setting>> legal_settings(const Module& module, const Chain& chain, const Machine& machine,
                                            bool deterministic);

}  // namespace xrun::planner
