#include "planner/verify/verify_parts.h"

#include "graph/passes/untie.h"

namespace xrun::planner {

Status check_bytes(const Buffer& buffer, Bytes least) {
  if (buffer.bytes < least) {
    return wrong("buffer {} ({}) has {} bytes for {}", buffer.id.index, buffer.name, buffer.bytes, least);
  }
  return {};
}

Error nothing(const Buffer& buffer, const char* what) {
  return wrong("buffer {} ({}) is of no {}", buffer.id.index, buffer.name, what);
}

ParamBuffers::ParamBuffers(const Program& program) {
  for (const Buffer& buffer : program.buffers) {
    if (buffer.param.valid() && buffer.purpose != Purpose::kPrepared) {
      of_replica_.try_emplace({buffer.param.index, buffer.purpose, buffer.replica, buffer.device, buffer.state},
                              &buffer);
      of_shard_.try_emplace({buffer.param.index, buffer.purpose, buffer.shard, buffer.state}, &buffer);
    }
  }
}

const Buffer* ParamBuffers::find(ParamId param, Purpose purpose, int replica, int device, int state) const {
  const auto found = of_replica_.find({param.index, purpose, replica, device, state});
  return found == of_replica_.end() ? nullptr : found->second;
}

ParamId ParamBuffers::holder(const Graph& graph, ParamId param, int replica, int device) const {
  for (const ParamId reader : tied_group(graph, param)) {
    if (find(reader, Purpose::kWeight, replica, device) != nullptr) {
      return reader;
    }
  }
  return param;
}

const Buffer* ParamBuffers::find_shard(ParamId param, Purpose purpose, int shard, int state) const {
  const auto found = of_shard_.find({param.index, purpose, shard, state});
  return found == of_shard_.end() ? nullptr : found->second;
}

}  // namespace xrun::planner
