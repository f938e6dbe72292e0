// Lists the parts of a device's memory at its peak, and makes the error page for plans that do not fit (declared in
// planner/report/explain.h). The peak is found by going through the instructions of the device and adding the sizes of
// buffers at their first use and subtracting them after their last one. The buffers alive at the peak are then grouped
// by purpose.
// Tests: tests/planner/report/text_test.cpp, tests/planner/planner_test.cpp
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>

#include "planner/report/explain.h"
#include "planner/report/reason_text.h"
#include "planner/search/fixes.h"
#include "planner/search/options.h"

namespace xrun::planner {
namespace {

std::string name_of_rows(const Program& program, int32_t head) {
  const RowFormat weights = program.heads[static_cast<size_t>(head)].weights;
  const std::string formats = formats_text(weights, states_of(program, head));
  return "class weights" + (formats.empty() ? " with optimizer states" : " " + formats);
}

std::string name_of(const Program& program, const Buffer& buffer) {
  switch (buffer.purpose) {
    case Purpose::kWeight:
    case Purpose::kState:
      return "weights";
    case Purpose::kOptimizer:
      return "optimizer states";
    case Purpose::kResidual:
      return "residuals of compressed gradients";
    case Purpose::kPairs:
      return "pairs of compressed gradients";
    case Purpose::kPrepared:
      return "prepared weights";
    case Purpose::kGradient:
      return "gradients";
    case Purpose::kHeadWeight:
    case Purpose::kHeadOptimizer:
    case Purpose::kHeadPrepared:
    case Purpose::kHeadScale:
    case Purpose::kHeadLast:
      return name_of_rows(program, buffer.head);
    case Purpose::kHeadLists:
    case Purpose::kHeadSnapshot:
    case Purpose::kHeadBuild:
      return "graph of nearest classes";
    case Purpose::kInput:
      return "batches of the loader";
    case Purpose::kActivation:
      return "activations";
    case Purpose::kTerms:
      return "terms of sums from other devices";
    case Purpose::kScratch:
      return "scratch of workers";
    case Purpose::kResult:
      return "results";
    default:
      return "head passes";
  }
}

void sort_largest_first(std::vector<MemoryPart>& parts) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const MemoryPart& a, const MemoryPart& b) { return a.bytes > b.bytes; });
}

// Returns the parts of an arena, and the bytes that its buffers leave free.
std::vector<MemoryPart> arena_parts(const Program& program, const Arena& arena) {
  std::vector<MemoryPart> parts = memory_parts(program, arena.device);
  if (arena.bytes > arena.live_max) {
    parts.push_back({"gaps between buffers", arena.bytes - arena.live_max});
  }
  return parts;
}

// Returns the parts of the largest device.
std::vector<MemoryPart> device_parts(const Fitted& fitted) {
  const std::vector<Arena>& arenas = fitted.training.arenas;
  const std::vector<Bytes>& devices = fitted.memory.devices;
  const auto bytes = [&](const Arena& arena) {
    return arena.device == kHost ? -1 : devices[static_cast<size_t>(arena.device)];
  };
  const Arena& largest = *std::ranges::max_element(arenas, {}, bytes);
  std::vector<MemoryPart> parts = arena_parts(fitted.training, largest);
  if (bytes(largest) > largest.bytes) {
    parts.push_back({"evaluation", bytes(largest) - largest.bytes});
  }
  return parts;
}

// Returns the parts of a run, or of the node that needs most: those of the largest device and of the host, and a row
// for each other use.
std::vector<MemoryPart> run_parts(const Fitted& fitted, const Machine& machine, bool of_node) {
  const int node = of_node ? static_cast<int>(std::ranges::max_element(fitted.nodes) - fitted.nodes.begin()) : 0;
  const Arena* largest = nullptr;
  std::vector<MemoryPart> parts;
  Bytes devices = 0;
  for (const Arena& arena : fitted.training.arenas) {
    if (arena.device == kHost) {
      for (const MemoryPart& part : arena_parts(fitted.training, arena)) {
        parts.push_back({part.name + ", on the host", part.bytes});
      }
    } else if (!of_node || (!machine.has_gpus() && machine.node_of(arena.device) == node)) {
      devices += arena.bytes;
      largest = largest == nullptr || arena.bytes > largest->bytes ? &arena : largest;
    }
  }
  if (largest != nullptr) {
    std::ranges::copy(arena_parts(fitted.training, *largest), std::back_inserter(parts));
    parts.push_back({"other devices", devices - largest->bytes});
  }
  const RunMemory& memory = fitted.memory;
  const bool has_node = of_node && memory.evaluation > 0;
  const Bytes evaluation =
      has_node ? memory_of_nodes(fitted.inference, machine)[static_cast<size_t>(node)] : memory.evaluation;
  parts.push_back({of_node ? "evaluation, on the node" : "evaluation, on all devices", evaluation});
  parts.push_back({"held by readers, at most", memory.readers});
  parts.push_back({"held by saves, at most", memory.saving});
  std::erase_if(parts, [](const MemoryPart& part) { return part.bytes == 0; });
  return parts;
}

}  // namespace

std::optional<RowFormat> states_of(const Program& program, int32_t head) {
  const bool has_states = std::ranges::any_of(program.buffers, [&](const Buffer& buffer) {
    return buffer.purpose == Purpose::kHeadOptimizer && buffer.head == head;
  });
  return has_states ? std::optional(program.heads[static_cast<size_t>(head)].states) : std::nullopt;
}

std::vector<BufferId> live_at_peak(const Program& program, int device) {
  std::map<int32_t, Bytes> change;  // changes of the used bytes; key: index of the instruction
  for (const Buffer& buffer : program.buffers) {
    if (buffer.device == device && !buffer.persistent && buffer.first_use >= 0) {
      change[buffer.first_use] += align_up(buffer.bytes);
      change[buffer.last_use + 1] -= align_up(buffer.bytes);
    }
  }
  Bytes now = 0;
  Bytes most = 0;
  int32_t peak = -1;
  for (const auto& [place, delta] : change) {
    now += delta;
    if (now > most) {
      most = now;
      peak = place;
    }
  }
  std::vector<BufferId> live;
  for (const Buffer& buffer : program.buffers) {
    const bool now_alive = buffer.first_use >= 0 && buffer.first_use <= peak && peak <= buffer.last_use;
    if (buffer.device == device && (buffer.persistent || now_alive) && !is_mapped(program, buffer)) {
      live.push_back(buffer.id);
    }
  }
  return live;
}

std::vector<MemoryPart> memory_parts(const Program& program, int device) {
  std::map<std::string, MemoryPart> by_name;
  for (const BufferId id : live_at_peak(program, device)) {
    const std::string name = name_of(program, program.buffer(id));
    MemoryPart& part = by_name.try_emplace(name, MemoryPart{name}).first->second;
    part.bytes += align_up(program.buffer(id).bytes);
    part.buffers.push_back(id);
  }
  std::vector<MemoryPart> parts;
  for (auto& [name, part] : by_name) {
    parts.push_back(std::move(part));
  }
  sort_largest_first(parts);
  return parts;
}

Error explain_infeasible(const SearchInput& input, const Fitted& smallest, const MemoryLimits& limits,
                         const std::vector<std::string>& fixes, bool rows_too) {
  const Exceeded exceeded = exceeded_by(smallest, limits);
  const bool of_node = exceeded == Exceeded::kNode;
  const bool whole = exceeded != Exceeded::kDevice;
  const ClusterSpec& cluster = input.module.cluster;
  const bool clustered = cluster.memory > 0 || cluster.reserve >= 0;
  Error error{ErrorKind::kInfeasible, "XG0601", "", "", input.module.train.batch_span};
  const std::string needed = format_bytes(memory_for(exceeded, smallest));
  const std::string usable = whole ? format_bytes(of_node ? limits.node : limits.total) + " are usable"
                                   : device_limit_text(input.machine, limits.device);
  error.message = "does not fit: the smallest plan found needs " + needed +
                  (of_node ? " on a node, "
                   : whole ? ", "
                           : " on a device, ") +
                  usable +
                  (of_node              ? " on each"
                   : whole && clustered ? " of what `cluster` gives"
                                        : "");
  error.label = std::to_string(input.module.train.batch) + " samples on " + input.machine.name;
  if (!whole && input.module.schedule.memory_limit && limits.device == input.module.schedule.memory_limit->value) {
    error.span = input.module.schedule.memory_limit->span;
    error.label = "of each device";
  }
  if (whole && clustered && cluster.span.valid()) {
    error.span = cluster.span;
    error.label = format_bytes(of_node ? limits.node : limits.total) + " are usable here";
  }
  std::string note =
      whole && input.machine.devices > 1
          ? std::string(of_node ? "memory of the node" : "memory of the run") + ", with the parts of the largest device"
      : input.machine.devices == 1 ? "on the device"
                                   : "on the largest of " + std::to_string(input.machine.devices) + " devices";
  std::vector<MemoryPart> parts = whole ? run_parts(smallest, input.machine, of_node) : device_parts(smallest);
  sort_largest_first(parts);
  bool first = true;
  for (const MemoryPart& part : parts) {
    char line[128];
    std::snprintf(line, sizeof line, "\n%-40s %10s%s", part.name.c_str(), format_bytes(part.bytes).c_str(),
                  first ? "  <- largest" : "");
    note += line;
    first = false;
  }
  error.notes.push_back(std::move(note));
  const std::string tried = rows_too ? "no smaller batch and no smaller row block fits" : "no smaller batch fits";
  const bool large =
      std::ranges::any_of(smallest.training.heads, [](const HeadPlan& head) { return head.classes >= kLargeHead; });
  error.help = fixes.empty() ? tried + " either: give it more memory, or make the model smaller" +
                                   (large ? "; `xrun plan FILE --fit classes` says how many classes fit" : "")
                             : std::string("plans that fit, fastest first (predicted), with the memory of ") +
                                   (!whole    ? "the largest device"
                                    : of_node ? "the node that needs most"
                                              : "the run");
  error.choices = fixes;
  return error;
}

}  // namespace xrun::planner
