#include "runtime/executor/row_offsets.h"

namespace xrun::runtime {

using planner::Buffer;
using planner::HeadPlan;
using planner::Instruction;
using planner::Program;

int64_t first_row(const Program& program, const Buffer& buffer) {
  if (buffer.micro_batch >= 0) {
    return buffer.micro_batch * program.micro_batch_rows();
  }
  return buffer.replica < 0 ? 0 : program.batch / program.replicas * buffer.replica;
}

int64_t place_in_pass(const Program& program, const HeadPlan& head, int micro_batch) {
  return head.rows == program.batch ? program.micro_batch_rows() * micro_batch
                                    : program.micro_batch_rows() * replica_of(program, micro_batch);
}

int64_t head_place(const Program& program, const HeadPlan& head, const Buffer& buffer, int micro_batch) {
  return buffer.micro_batch >= 0 ? place_in_pass(program, head, micro_batch) : program.micro_batch_rows() * micro_batch;
}

int64_t pass_place(const HeadPlan& head, const Buffer& buffer, int pass) {
  return buffer.micro_batch >= 0 ? 0 : head.rows * pass;
}

namespace {

template <typename Fits>
const Buffer* find_buffer(const Program& program, const Instruction& instruction, const Fits& fits) {
  for (const auto* list : {&instruction.reads, &instruction.writes}) {
    for (const planner::BufferId id : *list) {
      if (fits(program.buffer(id))) {
        return &program.buffer(id);
      }
    }
  }
  return nullptr;
}

}  // namespace

const Buffer* find_value(const Program& program, const Instruction& instruction, ValueId value) {
  return find_buffer(program, instruction,
                     [&](const Buffer& buffer) { return value.valid() && buffer.value == value; });
}

const Buffer* find_purpose(const Program& program, const Instruction& instruction, planner::Purpose purpose) {
  return find_buffer(program, instruction, [&](const Buffer& buffer) { return buffer.purpose == purpose; });
}

}  // namespace xrun::runtime
