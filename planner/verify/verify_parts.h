// Helpers and parts of the verifier for its own files; its public header is verify_program.h.
#pragma once

#include <fmt/format.h>
#include <map>
#include <tuple>
#include <vector>

#include "graph/base/result.h"
#include "graph/module.h"
#include "planner/program.h"

namespace xrun::planner {

template <typename... Args>
Error wrong(fmt::format_string<Args...> what, Args&&... args) {
  return {ErrorKind::kContent, "XG0622", "the program is not sound: " + fmt::format(what, std::forward<Args>(args)...),
          "make the plan again with `xrun plan`"};
}

inline bool inside(int64_t value, int64_t low, int64_t end) { return value >= low && value < end; }

template <typename T>
int64_t count(const std::vector<T>& list) {
  return static_cast<int64_t>(list.size());
}

// Errors of buffers: one that is too small, and one that belongs to nothing in the program or the module.
Status check_bytes(const Buffer& buffer, Bytes least);
Error nothing(const Buffer& buffer, const char* what);

// Buffers of parameters by their owner, the first of each.
class ParamBuffers {
 public:
  explicit ParamBuffers(const Program& program);

  // Null if it does not exist.
  const Buffer* find(ParamId param, Purpose purpose, int replica, int device, int state = -1) const;
  // The parameter whose weight buffer a device uses for `param`: that of its first reader there, if the weight is tied.
  ParamId holder(const Graph& graph, ParamId param, int replica, int device) const;
  const Buffer* find_shard(ParamId param, Purpose purpose, int shard, int state = -1) const;

 private:
  std::map<std::tuple<int32_t, Purpose, int, int, int>, const Buffer*> of_replica_;  // replica, device, state
  std::map<std::tuple<int32_t, Purpose, int, int>, const Buffer*> of_shard_;         // shard, state
};

// Every buffer belongs to something in the module and has its size, and no buffer is missing that the executor
// relies on: weights of gradients, states of weights, inputs of every slot.
Status verify_buffers(const Program& program, const Module& module);
// Heads equal those of the module, and the requirements above hold for their buffers.
Status verify_head_buffers(const Program& program, const Module& module);

// The operands of every instruction are those that follow from the module and the buffers. REQUIRES: these are
// verified.
Status verify_stage_operands(const Program& program, const Module& module);
Status verify_head_operands(const Program& program, const Module& module);      // passes over the shards of heads
Status verify_join_operands(const Program& program, const Module& module);      // combined shards, copied rows
Status verify_update_operands(const Program& program, const Module& module);    // the end of a step
Status verify_exchange_operands(const Program& program, const Module& module);  // between devices; calls the next two
Status verify_head_exchanges(const Program& program, const Module& module);
Status verify_gradient_exchanges(const Program& program, const Module& module);

}  // namespace xrun::planner
