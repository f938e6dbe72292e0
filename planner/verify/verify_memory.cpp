// Checks that buffers which share bytes are never in use at the same time. The buffers of a device are processed in the
// order of their first use. For each byte range the check keeps the last buffer that had it. A new buffer must begin
// after these buffers have ended; then it becomes the last buffer of the range. A buffer that had the range still
// earlier need not be compared, since it ended before the last one began.
// Tests: tests/planner/verify/verify_program_test.cpp
#include <algorithm>
#include <map>

#include "planner/verify/past.h"
#include "planner/verify/verify_parts.h"
#include "planner/verify/verify_program.h"

namespace xrun::planner {
namespace {

// The times of the accesses to a buffer. The instructions of a stream begin in order, so two buffers are compared by
// the first access in each stream to the later one.
struct Life {
  int32_t first = -1;  // the instruction that accesses the buffer first
  int32_t last = -1;
  int32_t begins[2] = {Past::kNever, Past::kNever};  // the first place in each stream at which the buffer is accessed
  int32_t over[2] = {0, 0};                          // the first place in each stream that begins after all accesses
};

std::vector<Life> lives_of(const Program& program) {
  const Past past(program);
  std::vector<Life> lives(program.buffers.size());
  for (const Instruction& one : program.instructions) {
    const int32_t now = one.id.index;
    for (const Past::Event event : {Past::kReceived, Past::kReleased}) {
      for (const BufferId id : event == Past::kReceived ? one.writes : one.reads) {
        Life& life = lives[static_cast<size_t>(id.index)];
        life.first = life.first < 0 ? now : life.first;
        life.last = now;
        int32_t& begins = life.begins[Past::stream_of(one)];
        begins = std::min(begins, past.place(now));
        for (const size_t stream : {0, 1}) {
          life.over[stream] = std::max(life.over[stream], past.since(now, event, stream));
        }
      }
    }
  }
  return lives;
}

bool lasts(const Program& program, const Buffer& buffer) {
  return buffer.persistent || (buffer.purpose == Purpose::kResult && buffer.head_pass < 0) ||
         (buffer.purpose == Purpose::kHeadSoftmax && !program.training);
}

class Memory {
 public:
  explicit Memory(const Program& program)
      : program_(program),
        end_(static_cast<int32_t>(program.instructions.size()) - 1),
        lives_(lives_of(program)),
        of_device_(program.arenas.size()) {}

  Status run(Bytes memory) {
    for (const Buffer& buffer : program_.buffers) {
      XRUN_TRY(check_place(buffer));
      XRUN_TRY(check_uses(buffer));
      if (buffer.bytes > 0) {
        of_device_[static_cast<size_t>(buffer.device + 1)].push_back(&buffer);
      }
    }
    Bytes total = 0;
    for (size_t d = 0; d < of_device_.size(); ++d) {
      std::ranges::sort(of_device_[d], {},
                        [](const Buffer* buffer) { return std::pair(buffer->first_use, buffer->id); });
      XRUN_TRY(check_shared(of_device_[d]));
      XRUN_TRY(check_live(program_.arenas[d], of_device_[d]));
      total += program_.arenas[d].bytes;
    }
    if (memory > 0 && total > memory) {
      return wrong("the arenas take {} of {}", format_bytes(total), format_bytes(memory));
    }
    return {};
  }

 private:
  Status check_place(const Buffer& buffer) const {
    const Arena& arena = program_.arenas[static_cast<size_t>(buffer.device + 1)];
    const bool mapped = is_mapped(program_, buffer);
    const Bytes begin = mapped ? align_up(arena.bytes, kMappedAlignment) : 0;
    const Bytes most = mapped ? begin + mapped_bytes(program_, buffer.device) : arena.bytes;
    if (buffer.offset < begin || buffer.offset + buffer.bytes > most ||
        (mapped && buffer.offset % kMappedAlignment != 0)) {
      return wrong("buffer {} ({}) lies at bytes {} to {} of an arena of {}", buffer.id.index, buffer.name,
                   buffer.offset, buffer.offset + buffer.bytes, arena.bytes);
    }
    return {};
  }

  Status check_uses(const Buffer& buffer) const {
    const Life& life = lives_[static_cast<size_t>(buffer.id.index)];
    const int32_t first = buffer.persistent || life.first < 0 ? 0 : life.first;
    const int32_t last = lasts(program_, buffer) || life.last < 0 ? end_ : life.last;
    if (first != buffer.first_use || last != buffer.last_use) {
      return wrong("buffer {} ({}) is used from {} to {}, not from {} to {}", buffer.id.index, buffer.name, first, last,
                   buffer.first_use, buffer.last_use);
    }
    return {};
  }

  bool ends_before(const Buffer& a, const Buffer& b) const {
    const Life& first = lives_[static_cast<size_t>(a.id.index)];
    const Life& second = lives_[static_cast<size_t>(b.id.index)];
    const auto over = [&](size_t stream) {
      return second.begins[stream] == Past::kNever || first.over[stream] <= second.begins[stream];
    };
    return !lasts(program_, a) && !b.persistent && a.last_use < b.first_use && over(0) && over(1);
  }

  // Checks the buffers of one device, which must be sorted by their first use.
  Status check_shared(std::span<const Buffer* const> buffers) const {
    struct Tenant {
      Bytes end = 0;
      const Buffer* buffer = nullptr;
    };
    std::map<Bytes, Tenant> tenants;  // key: first byte
    for (const Buffer* buffer : buffers) {
      const Bytes begin = buffer->offset;
      const Bytes end = begin + buffer->bytes;
      auto at = tenants.upper_bound(begin);
      if (at != tenants.begin() && std::prev(at)->second.end > begin) {
        --at;
      }
      while (at != tenants.end() && at->first < end) {
        const auto [had, tenant] = *at;
        if (!ends_before(*tenant.buffer, *buffer)) {
          return wrong("buffers {} ({}) and {} ({}) share bytes while both are in use", tenant.buffer->id.index,
                       tenant.buffer->name, buffer->id.index, buffer->name);
        }
        at = tenants.erase(at);
        if (had < begin) {
          tenants.emplace_hint(at, had, Tenant{begin, tenant.buffer});
        }
        if (tenant.end > end) {
          at = tenants.emplace_hint(at, end, tenant);
        }
      }
      tenants.emplace_hint(at, begin, Tenant{end, buffer});
    }
    return {};
  }

  Status check_live(const Arena& arena, std::span<const Buffer* const> buffers) const {
    std::vector<std::pair<int32_t, Bytes>> changes;  // frees sort before allocations at the same instruction
    for (const Buffer* buffer : buffers) {
      if (!is_mapped(program_, *buffer)) {
        changes.emplace_back(buffer->first_use, align_up(buffer->bytes));
        changes.emplace_back(buffer->last_use + 1, -align_up(buffer->bytes));
      }
    }
    std::ranges::sort(changes);
    Bytes live = 0;
    Bytes most = 0;
    for (const auto& [time, bytes] : changes) {
      live += bytes;
      most = std::max(most, live);
    }
    if (most != arena.live_max || arena.bytes < most) {
      return wrong("device {} has {} live bytes at most in an arena of {}, not {}", arena.device, most, arena.bytes,
                   arena.live_max);
    }
    return {};
  }

  const Program& program_;
  const int32_t end_;  // index of the last instruction
  const std::vector<Life> lives_;
  std::vector<std::vector<const Buffer*>> of_device_;  // non-empty buffers of each device; the host's come first
};

}  // namespace

Status verify_memory(const Program& program, Bytes memory) { return Memory(program).run(memory); }

}  // namespace xrun::planner
