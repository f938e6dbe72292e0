// The space of a search: lists the legal combinations of stages, replicas, micro-batches and pipelines under the hints
// of a schedule. If a hint cannot be met, the error names the hint and the values that are possible.
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/partition/partition.h"
#include "planner/program/machine.h"
#include "planner/program/program.h"
#include "planner/search/chain.h"

namespace xrun::planner {

struct Setting {
  int stages = 1;
  int replicas = 1;
  int micro_batches = 1;  // in the global batch
  PipelineKind pipeline = PipelineKind::kGpipe;
  int head_devices = 0;  // the shards of heads are on the first `head_devices` devices; 0: on all, or as in hints
  int chunks = 1;        // stages on each device of a replica
  int warm_up = 0;       // PipelineHint::warm_up
  // Whether a step has one head pass, and all forward passes come before all backward passes. It is for pipelines other
  // than GPipe and 1F1B: under GPipe, hints alone decide this, and 1F1B has a head pass for each micro-batch.
  bool one_head_pass = false;
  int ranks() const { return stages / chunks; }  // devices of a replica
  // Whether the pipeline is GPipe, or 1F1B with the usual warm-up.
  bool is_plain() const { return pipeline <= PipelineKind::kOneFOneB && warm_up == 0; }
  // Returns the hint that asks for the pipeline.
  PipelineHint hint() const { return {pipeline, warm_up, pipeline == PipelineKind::kInterleaved ? chunks : 2}; }
  bool operator==(const Setting&) const = default;
};

// Returns the setting from which a program was made, without `head_devices`.
Setting setting_of(const Program& program);

// Whether a pipeline of `ranks` devices with `chunks` stages each can run `micro_batches` micro-batches in the order of
// a schedule. kInterleaved needs groups of equal size, of at least `ranks` micro-batches unless there are fewer.
bool permits(PipelineKind pipeline, int ranks, int chunks, int micro_batches);

// Whether settings of a module may differ from this one only in `one_head_pass`.
bool chooses_granularity(const Setting& setting, const Module& module);

// Whether hints place the shards of some head.
bool places_heads(const ScheduleSpec& schedule);

std::string to_text(const Setting& setting);  // "stages = 2, micro_batches = 4, pipeline = one_f_one_b"

// Returns the divisors of n in ascending order, including 1 and n. The time is proportional to the square root of n.
std::vector<int64_t> divisors(int64_t n);

// Returns the number of gradient partials of all replicas (docs/internals/determinism.md, "Gradient partials"):
// min(4, row blocks) if deterministic; otherwise one for each worker of a replica's device, but at most the number of
// row blocks of a micro-batch. `blocks` is the number of row blocks of the batch.
int partials_of(const Setting& setting, bool deterministic, int64_t blocks, const Machine& machine);

// Returns the possible numbers of micro-batches: a micro-batch has whole row blocks, all from one of the batches that
// an update accumulates.
std::vector<int64_t> micro_batch_counts(const TrainSpec& train);

// Returns the first hint that sets the granularity of a head's passes; null if there is none. It holds for all heads,
// since their passes run together.
const ShardHint* find_granularity(const ScheduleSpec& schedule);

// Checks each hint by itself (hint_checks.cpp). Errors: those of legal_settings except XG0606.
Status check_hints(const Module& module, const Chain& chain, const Machine& machine, bool deterministic);
// Returns the error if no setting meets all hints together. `early_backward`: a setting was left out only because its
// backward passes would begin before the single head pass of the step.
Error no_setting(const Module& module, const Machine& machine, bool early_backward);

// Returns all legal settings in a fixed order, without duplicates. Errors are kContent with the place of the hint:
// XG0602 for a number of stages that is not possible, XG0603 for such a number of replicas, XG0605 for micro-batches
// that are not whole row blocks, XG0606 for hints that exclude one another, XG0607 for granularity = step under
// one_f_one_b or for different granularities of heads.
Result<std::vector<Setting>> legal_settings(const Module& module, const Chain& chain, const Machine& machine,
                                            bool deterministic);

}  // namespace xrun::planner
