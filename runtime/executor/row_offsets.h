// Which rows of the batch a buffer has, and where they lie in it: the rules at the head of planner/program.h.
#pragma once

#include "graph/graph.h"
#include "planner/program.h"

namespace xrun::runtime {

// Micro-batches of one replica.
constexpr int micro_batches_of_replica(const planner::Program& program) {
  return program.micro_batches / program.replicas;
}
constexpr int replica_of(const planner::Program& program, int micro_batch) {
  return micro_batch / micro_batches_of_replica(program);
}

// The row of the global batch that is the first one in a buffer of a stage.
int64_t first_row(const planner::Program& program, const planner::Buffer& buffer);

// Rows of one head pass lie in the order of the replicas. The place of the first row of micro-batch `micro_batch`
// (counted globally) among the rows that a head's buffer has.
int64_t head_place(const planner::Program& program, const planner::HeadPlan& head, const planner::Buffer& buffer,
                   int micro_batch);
// And inside its pass.
int64_t place_in_pass(const planner::Program& program, const planner::HeadPlan& head, int micro_batch);
// The place of the first row of pass `pass` in a head's buffer.
int64_t pass_place(const planner::HeadPlan& head, const planner::Buffer& buffer, int pass);

// Buffer `value` among what an instruction reads or writes; null when there is none.
const planner::Buffer* find_value(const planner::Program& program, const planner::Instruction& instruction,
                                  ValueId value);
const planner::Buffer* find_purpose(const planner::Program& program, const planner::Instruction& instruction,
                                    planner::Purpose purpose);

}  // namespace xrun::runtime
