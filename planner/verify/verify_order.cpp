// What is ordered whatever the streams do. Each instruction, and each group as a whole, has the set of those that must
// have ended before it begins: the union over its dependencies and its predecessor in the stream, as one number a
// stream (how many of its instructions), since streams run in order.
#include <algorithm>
#include <optional>

#include "planner/verify/verify_parts.h"
#include "planner/verify/verify_program.h"

namespace xrun::planner {
namespace {

class Past {
 public:
  explicit Past(const Program& program)
      : streams_(static_cast<size_t>(program.devices) * 2),
        stream_(program.instructions.size()),
        rank_(program.instructions.size()),
        before_(program.instructions.size() * streams_, 0) {
    const size_t count = program.instructions.size();
    std::vector<int32_t> length(streams_, 0);
    std::vector<int32_t> last(streams_, -1);
    std::vector<int32_t> ended;  // clocks of the ends of groups, one after the other
    const auto merge = [this](int32_t* into, const int32_t* from) {
      std::transform(into, into + streams_, from, into, [](int32_t x, int32_t y) { return std::max(x, y); });
    };
    std::vector<int64_t> group_end(count, -1);  // by instruction: where the clock of its group begins in `ended`
    for (size_t begin = 0, end = 0; begin < count; begin = end) {
      const int group = program.instructions[begin].group;
      for (end = begin + 1; group >= 0 && end < count && program.instructions[end].group == group; ++end) {
      }
      for (size_t i = begin; i < end; ++i) {
        const Instruction& one = program.instructions[i];
        stream_[i] = static_cast<size_t>(one.device) * 2 + static_cast<size_t>(one.stream);
        rank_[i] = ++length[stream_[i]];
        int32_t* const mine = &before_[i * streams_];
        const auto include = [&](size_t other) {
          if (mine[stream_[other]] >= rank_[other]) {
            return;  // its end is known to come before, and with it all that it waited for
          }
          merge(mine,
                group_end[other] >= 0 ? &ended[static_cast<size_t>(group_end[other])] : &before_[other * streams_]);
          mine[stream_[other]] = std::max(mine[stream_[other]], rank_[other]);
        };
        if (last[stream_[i]] >= 0) {
          include(static_cast<size_t>(last[stream_[i]]));
        }
        for (const InstructionId dep : one.deps) {
          include(static_cast<size_t>(dep.index));
        }
        last[stream_[i]] = static_cast<int32_t>(i);
      }
      if (end - begin > 1) {
        const size_t at = ended.size();
        ended.resize(at + streams_, 0);
        for (size_t i = begin; i < end; ++i) {
          merge(&ended[at], &before_[i * streams_]);
          ended[at + stream_[i]] = std::max(ended[at + stream_[i]], rank_[i]);
          group_end[i] = static_cast<int64_t>(at);
        }
      }
    }
  }

  // `a` has ended before `b` begins.
  bool ordered(int32_t a, int32_t b) const {
    const auto at = static_cast<size_t>(a);
    return before_[static_cast<size_t>(b) * streams_ + stream_[at]] >= rank_[at];
  }

  size_t streams() const { return streams_; }
  size_t stream(int32_t i) const { return stream_[static_cast<size_t>(i)]; }
  int32_t rank(int32_t i) const { return rank_[static_cast<size_t>(i)]; }
  int32_t before(int32_t i, size_t stream) const { return before_[static_cast<size_t>(i) * streams_ + stream]; }

 private:
  size_t streams_;
  std::vector<size_t> stream_;
  std::vector<int32_t> rank_;    // place in its stream, from 1
  std::vector<int32_t> before_;  // [instruction][stream]
};

// Accesses of every buffer in list order.
struct Touch {
  int32_t instruction = 0;
  bool write = false;
};

std::vector<std::vector<Touch>> touches_of(const Program& program) {
  std::vector<std::vector<Touch>> accesses(program.buffers.size());
  for (const Instruction& one : program.instructions) {
    for (const bool write : {false, true}) {
      for (const BufferId id : write ? one.writes : one.reads) {
        auto& list = accesses[static_cast<size_t>(id.index)];
        if (!list.empty() && list.back().instruction == one.id.index) {
          list.back().write = list.back().write || write;
        } else {
          list.push_back({one.id.index, write});
        }
      }
    }
  }
  return accesses;
}

// Numbers that are compared while clocks are made and memory is held to them: some seconds of work.
constexpr int64_t kMostWork = int64_t{1} << 33;

Error too_much() {
  return wrong(
      "its dependences, operands and shared bytes are more than can be verified: plan for fewer devices or "
      "micro-batches");
}

bool lasts(const Buffer& buffer) {
  return buffer.persistent || (buffer.purpose == Purpose::kResult && buffer.head_pass < 0);
}

}  // namespace

Status verify_order(const Program& program) {
  int64_t work = 0;
  for (const Instruction& one : program.instructions) {
    work += 1 + count(one.deps) + count(one.reads) + count(one.writes);
  }
  if (work * 2 * program.devices > kMostWork) {
    return too_much();
  }
  const Past past(program);
  const auto accesses = touches_of(program);
  for (size_t b = 0; b < accesses.size(); ++b) {
    const auto& list = accesses[b];
    const Buffer& buffer = program.buffers[b];
    if (!buffer.persistent && (list.empty() || !list.front().write)) {
      return wrong("buffer {} ({}) is read before it was written", b, buffer.name);
    }
    // An in-place read and write counts as a write; what comes before it was written by somebody else.
    if (!buffer.persistent && list.front().write) {
      const Instruction& first = program.instruction(InstructionId(list.front().instruction));
      if (std::find(first.reads.begin(), first.reads.end(), buffer.id) != first.reads.end()) {
        return wrong("buffer {} ({}) is read before it was written", b, buffer.name);
      }
    }
    // A read against the last write; a write against all reads since, and the last write if there are none: the rest
    // follows.
    std::optional<size_t> written;  // the last write
    for (size_t i = 0; i < list.size(); ++i) {
      const size_t since = written ? *written + 1 : 0;
      const size_t from = written && (!list[i].write || since == i) ? *written : since;
      for (size_t j = from; j < (list[i].write ? i : written ? from + 1 : from); ++j) {
        if (!past.ordered(list[j].instruction, list[i].instruction)) {
          return wrong("instructions {} and {} touch buffer {} ({}) in no order", list[j].instruction,
                       list[i].instruction, b, buffer.name);
        }
      }
      if (list[i].write) {
        written = i;
      }
    }
  }
  return {};
}

Status verify_memory(const Program& program, Bytes memory) {
  const Past past(program);
  const auto accesses = touches_of(program);
  const auto end = static_cast<int32_t>(program.instructions.size()) - 1;
  // By buffer and stream: rank of its last access, and the least that has ended when any of its accesses begins.
  const size_t streams = past.streams();
  std::vector<int32_t> latest(program.buffers.size() * streams, 0);
  std::vector<int32_t> earliest(program.buffers.size() * streams, INT32_MAX);
  std::vector<std::vector<int32_t>> of_device(static_cast<size_t>(program.devices) + 1);
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    const Arena& arena = program.arenas[static_cast<size_t>(buffer.device + 1)];
    if (buffer.offset + buffer.bytes > arena.bytes) {
      return wrong("buffer {} ({}) ends at byte {} of an arena of {}", b, buffer.name, buffer.offset + buffer.bytes,
                   arena.bytes);
    }
    const auto& list = accesses[b];
    const int32_t first = buffer.persistent || list.empty() ? 0 : list.front().instruction;
    const int32_t last = lasts(buffer) || list.empty() ? end : list.back().instruction;
    if (first != buffer.first_use || last != buffer.last_use) {
      return wrong("buffer {} ({}) is used from {} to {}, not from {} to {}", b, buffer.name, first, last,
                   buffer.first_use, buffer.last_use);
    }
    for (const Touch& access : list) {
      int32_t& rank = latest[b * streams + past.stream(access.instruction)];
      rank = std::max(rank, past.rank(access.instruction));
      for (size_t s = 0; s < streams; ++s) {
        int32_t& least = earliest[b * streams + s];
        least = std::min(least, past.before(access.instruction, s));
      }
    }
    if (buffer.bytes > 0) {
      of_device[static_cast<size_t>(buffer.device + 1)].push_back(static_cast<int32_t>(b));
    }
  }
  const auto ends_before = [&](const Buffer& a, const Buffer& b) {
    if (lasts(a) || b.persistent || a.last_use >= b.first_use) {
      return false;
    }
    for (size_t s = 0; s < streams; ++s) {
      if (latest[static_cast<size_t>(a.id.index) * streams + s] >
          earliest[static_cast<size_t>(b.id.index) * streams + s]) {
        return false;
      }
    }
    return true;
  };
  Bytes total = 0;
  int64_t work = 0;
  for (size_t d = 0; d < of_device.size(); ++d) {
    auto& buffers = of_device[d];
    std::sort(buffers.begin(), buffers.end(), [&](int32_t a, int32_t b) {
      return program.buffers[static_cast<size_t>(a)].offset < program.buffers[static_cast<size_t>(b)].offset;
    });
    std::vector<Bytes> change(static_cast<size_t>(end) + 2, 0);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& a = program.buffers[static_cast<size_t>(buffers[i])];
      change[static_cast<size_t>(a.first_use)] += align_up(a.bytes);
      change[static_cast<size_t>(a.last_use) + 1] -= align_up(a.bytes);
      for (size_t j = i + 1; j < buffers.size(); ++j) {
        const Buffer& b = program.buffers[static_cast<size_t>(buffers[j])];
        if (b.offset >= a.offset + a.bytes) {
          break;
        }
        work += static_cast<int64_t>(streams);
        if (work > kMostWork) {
          return too_much();
        }
        if (!ends_before(a, b) && !ends_before(b, a)) {
          return wrong("buffers {} ({}) and {} ({}) share bytes while both are in use", a.id.index, a.name, b.id.index,
                       b.name);
        }
      }
    }
    Bytes live = 0;
    Bytes most = 0;
    for (const Bytes bytes : change) {
      live += bytes;
      most = std::max(most, live);
    }
    const Arena& arena = program.arenas[d];
    if (most != arena.live_max || arena.bytes < most) {
      return wrong("device {} has {} live bytes at most in an arena of {}, not {}", arena.device, most, arena.bytes,
                   arena.live_max);
    }
    total += arena.bytes;
  }
  if (memory > 0 && total > memory) {
    return wrong("the arenas take {} of {}", format_bytes(total), format_bytes(memory));
  }
  return {};
}

}  // namespace xrun::planner
