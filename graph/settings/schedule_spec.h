// The settings of `cluster` and `schedule`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/source.h"
#include "graph/base/units.h"

namespace xrun {

// The network between the nodes of a cluster. Each node has one link, which sends and receives at the same time.
struct NetworkSpec {
  std::string name;     // "ethernet"; empty: unknown
  double rate = 0;      // bytes a second in each direction
  Seconds latency = 0;  // time of a message without its bytes
  bool known() const { return rate > 0; }
  bool operator==(const NetworkSpec&) const = default;
};

struct ClusterSpec {
  std::string name;
  std::string cpu;   // name of the processor in reports; empty: "cpu"
  std::string gpu;   // GpuDef::name: the devices of a node are its GPUs; empty: they are its cores
  int64_t gpus = 1;  // GPUs of a node
  int64_t nodes = 1;
  NetworkSpec network;
  int64_t cores = 0;   // cores of a node; 0: detect
  Bytes memory = 0;    // memory of a node; 0: detect
  Bytes reserve = -1;  // memory of a node that is left free; -1: default
  double storage = 0;  // bytes a second that a node reads or writes in files; 0: unknown
  Span span;
};

// A hint and its place in the text.
template <typename T>
struct Hint {
  T value{};
  Span span{};
};

enum class PipelineKind { kGpipe, kOneFOneB };

struct RecomputeHint {
  enum Mode { kNone, kAll, kPaths };
  Mode mode = kNone;
  std::vector<std::string> paths;
};

struct ShardHint {
  std::string head;
  int64_t shards = 0;       // K shards, shard r on device r mod devices; 0: all devices
  bool by_node = false;     // instead of `shards`: one shard on the first device of each node
  std::string granularity;  // "auto", "micro_batch" or "step"
  Span span;
};

struct PinHint {
  std::string path;
  int64_t stage = 0;
  Span span;
};

// The settings of `schedule`. An absent hint means `auto`.
struct ScheduleSpec {
  std::string name;
  std::optional<Hint<int64_t>> stages;
  std::optional<Hint<int64_t>> micro_batches;
  std::optional<Hint<PipelineKind>> pipeline;
  std::optional<Hint<int64_t>> replicas;
  std::optional<Hint<RecomputeHint>> recompute;
  std::optional<Hint<bool>> overlap;
  std::optional<Hint<Bytes>> memory_limit;
  Bytes bucket = Bytes{25} << 20;  // bytes of gradients that replicas reduce in one call, at least 1
  std::vector<ShardHint> shards;
  std::vector<PinHint> pins;
  Span span;
};

}  // namespace xrun
