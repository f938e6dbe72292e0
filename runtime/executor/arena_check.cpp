#include "runtime/executor/arena_check.h"

#include <algorithm>

namespace xrun::runtime {
namespace {

using planner::Buffer;
using planner::BufferId;
using planner::Instruction;
using planner::Purpose;

constexpr std::byte kPattern{0xFF};
constexpr Bytes kStaging = 64 * kKiB;  // bytes that are checked at a time

Error wrong(const std::string& what) {
  return {ErrorKind::kContent, "XG0626", "the memory plan does not hold: " + what,
          "make the plan again with `xrun plan`"};
}

std::string name_of(const Buffer& buffer) {
  return "buffer " + std::to_string(buffer.id.index) + " (" + buffer.name + ")";
}

std::string name_of(const Instruction& instruction) {
  return "instruction " + std::to_string(instruction.id.index) + " on device " + std::to_string(instruction.device);
}

}  // namespace

ArenaCheck::ArenaCheck(const planner::Program& program, const BoundMemory& memory)
    : program_(program),
      memory_(memory),
      named_(program.instructions.size()),
      on_device_(static_cast<size_t>(program.devices)),
      between_(static_cast<size_t>(program.devices)),
      buffers_(program.buffers.size()),
      ended_(program.instructions.size(), 0) {
  std::vector<int32_t> last(program.buffers.size(), -1);
  for (const Instruction& instruction : program.instructions) {
    auto& named = named_[static_cast<size_t>(instruction.id.index)];
    named = instruction.reads;
    named.insert(named.end(), instruction.writes.begin(), instruction.writes.end());
    std::sort(named.begin(), named.end());
    named.erase(std::unique(named.begin(), named.end()), named.end());
    for (const BufferId id : named) {
      ++buffers_[static_cast<size_t>(id.index)].touches;
      last[static_cast<size_t>(id.index)] = instruction.id.index;
    }
  }
  for (const planner::Arena& arena : program.arenas) {
    if (arena.device != planner::kHost && memory.has(arena.device)) {
      between_[static_cast<size_t>(arena.device)] = {{0, arena.bytes}};
    }
  }
  for (const Buffer& buffer : program.buffers) {
    if (buffer.device == planner::kHost || !memory.has(buffer.device)) {
      continue;
    }
    const auto device = static_cast<size_t>(buffer.device);
    Watched& watched = buffers_[static_cast<size_t>(buffer.id.index)];
    watched.watched = !buffer.persistent;
    watched.kept = buffer.last_use > last[static_cast<size_t>(buffer.id.index)];
    if (watched.watched) {
      on_device_[device].push_back(buffer.id);
      continue;
    }
    std::vector<Extent> rest;
    const Extent taken = extent(buffer);
    for (const Extent& one : between_[device]) {
      for (const Extent& part :
           {Extent{one.begin, std::min(one.end, taken.begin)}, Extent{std::max(one.begin, taken.end), one.end}}) {
        if (part.begin < part.end) {
          rest.push_back(part);
        }
      }
    }
    between_[device] = std::move(rest);
  }
}

ArenaCheck::Extent ArenaCheck::extent(const Buffer& buffer) const {
  return {buffer.offset, buffer.offset + align_up(buffer.bytes)};
}

void ArenaCheck::fill(int device, Extent extent) const {
  memory_.arena(device).fill(extent.begin, extent.end - extent.begin, kPattern);
}

Bytes ArenaCheck::first_touched(int device, Extent extent) {
  for (Bytes at = extent.begin; at < extent.end;) {
    staging_.resize(static_cast<size_t>(std::min(extent.end - at, kStaging)));
    memory_.arena(device).read(at, staging_);
    const auto found = std::find_if(staging_.begin(), staging_.end(), [](std::byte b) { return b != kPattern; });
    at += found - staging_.begin();
    if (found != staging_.end()) {
      return at;
    }
  }
  return extent.end;
}

void ArenaCheck::begin_step() {
  const std::lock_guard lock(mutex_);
  std::fill(ended_.begin(), ended_.end(), uint8_t{0});
  for (Watched& watched : buffers_) {
    watched.left = watched.touches;
    watched.alive = false;
  }
  for (size_t device = 0; device < between_.size(); ++device) {
    for (const Extent& one : between_[device]) {
      fill(static_cast<int>(device), one);
    }
  }
}

Status ArenaCheck::begin(const Instruction& instruction) {
  const std::lock_guard lock(mutex_);
  for (const BufferId id : named_[static_cast<size_t>(instruction.id.index)]) {
    const Buffer& buffer = program_.buffer(id);
    const Watched& watched = buffers_[static_cast<size_t>(id.index)];
    if (!watched.watched) {
      continue;
    }
    if (instruction.id.index < buffer.first_use || instruction.id.index > buffer.last_use) {
      return wrong(name_of(instruction) + " touches " + name_of(buffer) + ", which lives from " +
                   std::to_string(buffer.first_use) + " to " + std::to_string(buffer.last_use));
    }
    if (!watched.alive) {
      XRUN_TRY(first_touch(instruction, buffer));
    }
  }
  return {};
}

Status ArenaCheck::first_touch(const Instruction& instruction, const Buffer& buffer) {
  Watched& watched = buffers_[static_cast<size_t>(buffer.id.index)];
  if (watched.left < watched.touches || instruction.id.index != buffer.first_use) {
    return wrong(name_of(instruction) + " touches " + name_of(buffer) +
                 (watched.left == 0 ? " after its last use" : " before its first use"));
  }
  if (std::find(instruction.writes.begin(), instruction.writes.end(), buffer.id) == instruction.writes.end()) {
    return wrong(name_of(instruction) + " reads " + name_of(buffer) + ", which nothing has written");
  }
  const Extent mine = extent(buffer);
  for (const BufferId id : on_device_[static_cast<size_t>(buffer.device)]) {
    const Buffer& other = program_.buffer(id);
    const Extent its = extent(other);
    if (buffers_[static_cast<size_t>(id.index)].alive && mine.begin < its.end && its.begin < mine.end) {
      return wrong(name_of(instruction) + " takes the bytes of " + name_of(other) + ", which is still in use, for " +
                   name_of(buffer));
    }
  }
  if (const Bytes found = first_touched(buffer.device, mine); found != mine.end) {
    return wrong("before " + name_of(instruction) + " begins with " + name_of(buffer) +
                 ", something has written to its byte " + std::to_string(found - mine.begin));
  }
  watched.alive = true;
  return {};
}

void ArenaCheck::leave(BufferId id) {
  Watched& watched = buffers_[static_cast<size_t>(id.index)];
  if (--watched.left == 0 && watched.watched && !watched.kept) {
    watched.alive = false;
    fill(program_.buffer(id).device, extent(program_.buffer(id)));
  }
}

// A use of a buffer ends when all events that end its accesses have happened: a buffer that an exchange writes has been
// received, a buffer that it reads has been released.
Status ArenaCheck::end(const Instruction& instruction, AccessEnd event) {
  const std::lock_guard lock(mutex_);
  uint8_t& ended = ended_[static_cast<size_t>(instruction.id.index)];
  const auto before = ended;
  ended |= static_cast<uint8_t>(event);
  const auto has = [](const std::vector<BufferId>& list, BufferId id) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  for (const BufferId id : named_[static_cast<size_t>(instruction.id.index)]) {
    const int needs = (has(instruction.writes, id) ? static_cast<int>(AccessEnd::kReceived) : 0) |
                      (has(instruction.reads, id) ? static_cast<int>(AccessEnd::kReleased) : 0);
    if ((before & needs) != needs && (ended & needs) == needs) {
      leave(id);
    }
  }
  return {};
}

Status ArenaCheck::end_step() {
  const std::lock_guard lock(mutex_);
  for (size_t d = 0; d < between_.size(); ++d) {
    const auto device = static_cast<int>(d);
    std::vector<Extent> kept;  // bytes of results; all other bytes must have the pattern
    for (const BufferId id : on_device_[d]) {
      const Watched& watched = buffers_[static_cast<size_t>(id.index)];
      if (watched.left > 0) {
        return wrong("the step ends before the last use of " + name_of(program_.buffer(id)));
      }
      if (watched.alive) {
        kept.push_back(extent(program_.buffer(id)));
      }
    }
    std::sort(kept.begin(), kept.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    for (Extent one : between_[d]) {
      kept.push_back({one.end, one.end});
      for (const Extent& alive : kept) {
        const Extent dead{one.begin, std::max(one.begin, std::min(one.end, alive.begin))};
        if (const Bytes found = first_touched(device, dead); found != dead.end) {
          return wrong("something has written to byte " + std::to_string(found) + " of device " + std::to_string(d) +
                       ", which no buffer has at the end of the step");
        }
        one.begin = std::max(one.begin, std::min(one.end, alive.end));
      }
      kept.pop_back();
    }
  }
  return {};
}

}  // namespace xrun::runtime
