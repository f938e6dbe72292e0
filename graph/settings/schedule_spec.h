// The settings of `cluster` and `schedule`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

// The order of the passes of micro-batches in a pipeline (planner/schedules/schedule.h).
enum class PipelineKind : uint8_t {
  kGpipe,
  kOneFOneB,
  kInterleaved,  // several stages a device, which the micro-batches of a group pass one after the other
  kZbV,          // two stages a device; gradients of weights fill the times in which a device would wait
  kZeroBubble,   // one stage a device; the fastest order in a simulation of many, most with split passes
};

inline constexpr int kPipelineKinds = 5;

// Returns the word of the language: "gpipe", "one_f_one_b".
constexpr std::string_view word_of(PipelineKind kind) {
  constexpr std::string_view kWords[kPipelineKinds] = {"gpipe", "one_f_one_b", "interleaved", "zb_v", "zero_bubble"};
  return kWords[static_cast<size_t>(kind)];
}
// Returns the name in texts for people, which is the word but for "1f1b".
constexpr std::string_view name_of(PipelineKind kind) {
  return kind == PipelineKind::kOneFOneB ? "1f1b" : word_of(kind);
}
// Whether the schedule runs the gradients of weights apart from those of inputs.
constexpr bool splits_backward(PipelineKind kind) { return kind >= PipelineKind::kZbV; }

struct PipelineHint {
  PipelineKind kind = PipelineKind::kGpipe;
  int64_t warm_up = 0;  // kOneFOneB: forward passes that each stage runs in advance, in addition to the usual ones
  int64_t chunks = 2;   // kInterleaved: stages on each device
  // Returns the number of stages on each device of the pipeline.
  int stages_of_device() const {
    return kind == PipelineKind::kInterleaved ? static_cast<int>(chunks) : kind == PipelineKind::kZbV ? 2 : 1;
  }
  bool operator==(const PipelineHint&) const = default;
};

// Returns the text of the language: "gpipe", "one_f_one_b(warm_up=1)", "interleaved(chunks=2)".
inline std::string to_text(const PipelineHint& hint) {
  const std::string word(word_of(hint.kind));
  return hint.kind == PipelineKind::kInterleaved ? word + "(chunks=" + std::to_string(hint.chunks) + ")"
         : hint.warm_up > 0                      ? word + "(warm_up=" + std::to_string(hint.warm_up) + ")"
                                                 : word;
}

struct RecomputeHint {
  enum Mode { kNone, kAll, kPaths };
  Mode mode = kNone;
  std::vector<std::string> paths;
};

// Without `shards`, `on_all` and `by_node`, the planner chooses the devices of the head.
struct ShardHint {
  std::string head;
  int64_t shards = 0;       // K shards, shard r on device r mod devices; 0: as `by_node` and `on_all` say
  bool by_node = false;     // one shard on the first device of each node
  std::string granularity;  // "auto", "micro_batch" or "step"
  Span span;
  bool on_all = false;  // one shard on each device
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
  std::optional<Hint<PipelineHint>> pipeline;
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
