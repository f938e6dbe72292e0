#include "planner/program/run_memory.h"

#include <algorithm>

#include "graph/settings/reader_def.h"
#include "graph/settings/save_chunk.h"
#include "planner/program/save_size.h"

namespace xrun::planner {
namespace {

Bytes arenas_of(const Program& program) {
  Bytes sum = 0;
  for (const Arena& arena : program.arenas) {
    sum += arena.bytes;
  }
  return sum;
}

// Adds the arenas of devices to those that count for the limit of each device.
void add_devices(const Program& program, RunMemory& memory) {
  memory.devices.resize(static_cast<size_t>(program.devices), 0);
  for (const Arena& arena : program.arenas) {
    if (arena.device != kHost) {
      memory.devices[static_cast<size_t>(arena.device)] += arena.bytes;
      memory.on_gpus += program.gpu.empty() ? 0 : arena.bytes;
    }
  }
}

bool is_measured(const TrainSpec& train, const std::string& source) {
  const std::vector<MetricSpec>& metrics = train.measured();
  return std::any_of(metrics.begin(), metrics.end(), [&](const MetricSpec& metric) { return metric.reads(source); });
}

// Returns the memory for saves in the background: a chunk for each thread that writes, copies of rows (save_staging)
// and, for heads whose rows catch up with unused steps (Untouched::kExact), an f32 value per class and tensor.
Bytes saving_of(const Module& module, const Program& training) {
  if (!module.train.checkpoint_async) {
    return 0;
  }
  Bytes bytes = writers_of_rank(training, 0) * kSaveChunk + save_staging(training);
  for (const HeadPlan& head : training.heads) {
    const int64_t tensors = head.bias.valid() ? 2 : 1;
    bytes += head.untouched == Untouched::kExact ? tensors * head.classes * static_cast<Bytes>(sizeof(float)) : 0;
  }
  return bytes;
}

}  // namespace

Bytes held_by(const SourceSpec& source) {
  if (source.held) {
    return *source.held;
  }
  const ReaderDef* reader = data_registry().find_reader(source.reader.name);
  return reader != nullptr && reader->held != nullptr ? reader->held(source.reader.args) : -1;
}

int writers_of_rank(const Program& program, int rank) { return workers_of_rank(program, rank) + 1; }

Bytes save_staging(const Program& program) {
  Bytes bytes = 0;
  for (const Buffer& buffer : program.buffers) {
    bytes += is_saved(buffer.purpose) ? buffer.bytes : 0;
  }
  return std::min(bytes, kSaveStaging);
}

std::vector<Bytes> memory_of_nodes(const Program& program, const Machine& machine) {
  std::vector<Bytes> nodes(static_cast<size_t>(machine.nodes()), 0);
  for (const Arena& arena : program.arenas) {
    for (size_t n = 0; n < nodes.size(); ++n) {
      const bool has =
          arena.device == kHost || (!machine.has_gpus() && machine.node_of(arena.device) == static_cast<int>(n));
      nodes[n] += has ? arena.bytes : 0;
    }
  }
  return nodes;
}

Bytes largest_device_of(const Program& program) {
  Bytes largest = 0;
  for (const Arena& arena : program.arenas) {
    largest = std::max(largest, arena.device == kHost ? 0 : arena.bytes);
  }
  return largest;
}

RunMemory run_memory(const Module& module, const Program& training, const Program& inference) {
  RunMemory memory{.training = arenas_of(training), .saving = saving_of(module, training)};
  add_devices(training, memory);
  for (const SourceSpec& source : module.data.sources) {
    const bool measured = is_measured(module.train, source.name);
    if (measured) {
      memory.evaluation = arenas_of(inference);
    }
    if (!measured && source.name != "train") {
      continue;  // the run does not open this data source
    }
    if (const Bytes held = held_by(source); held >= 0) {
      memory.readers += held;
    } else {
      memory.uncounted.push_back(source.name);
    }
  }
  if (memory.evaluation > 0 && !inference.gpu.empty()) {
    add_devices(inference, memory);
  }
  return memory;
}

}  // namespace xrun::planner
