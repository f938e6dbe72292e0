// Helpers and parts of the verifier, for its own sources only. The public header is verify_program.h.
#pragma once

#include <fmt/format.h>
#include <map>
#include <tuple>
#include <vector>

#include "graph/base/result.h"
#include "graph/module.h"
#include "planner/program/program.h"

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

// Checks that a buffer has at least `least` bytes.
Status check_bytes(const Buffer& buffer, Bytes least);
// Returns the error for a buffer that nothing in the program or the module uses.
Error nothing(const Buffer& buffer, const char* what);

// Finds the buffers of parameters by replica and device, or by shard. If there are several, it finds the first.
class ParamBuffers {
 public:
  explicit ParamBuffers(const Program& program);

  // Returns the buffer; null if it does not exist.
  const Buffer* find(ParamId param, Purpose purpose, int replica, int device, int state = -1) const;
  // Returns the parameter whose weight buffer a device uses for `param`. It is `param` itself unless the weight is
  // tied; then it is the first reader of the weight on the device.
  ParamId holder(const Graph& graph, ParamId param, int replica, int device) const;
  const Buffer* find_shard(ParamId param, Purpose purpose, int shard, int state = -1) const;

 private:
  std::map<std::tuple<int32_t, Purpose, int, int, int>, const Buffer*> of_replica_;  // replica, device, state
  std::map<std::tuple<int32_t, Purpose, int, int>, const Buffer*> of_shard_;         // shard, state
};

// Checks that every buffer belongs to something in the module and has the size of its contents, and that the buffers
// exist on which the executor relies: weights of gradients, states of weights, inputs of every slot.
Status verify_buffers(const Program& program, const Module& module);
// Checks that the heads are those of the module.
Status verify_heads(const Program& program, const Module& module);
// Checks the buffers of heads like verify_buffers. REQUIRES: verify_heads.
Status verify_head_buffers(const Program& program, const Module& module);

// Checks that each device with stages has as many as the pipeline puts on it, and the range of the warm-up.
Status verify_pipeline(const Program& program);

// Checks that stages are ranges of the forward nodes in order, that each backward node is in one stage, and that a
// stage runs only its own nodes again.
Status verify_nodes(const Program& program, const Graph& graph);

// Runs the program over symbols (planner/verify/symbolic_run.h). REQUIRES: the checks above have accepted the program.
Status verify_values(const Program& program, const Module& module);

}  // namespace xrun::planner
