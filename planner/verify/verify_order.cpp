// Checks orders that hold whatever the streams do. All instructions that touch a buffer are of one device, whose
// computations end in order; exchanges beside them are posted in order and complete in any order. So "a has ended
// before b begins" follows, for a computation a, from the number of computations that are known to have ended when b
// begins; for an exchange a, from the first place in either stream of the device at which it is known to be received,
// or released.
#include <algorithm>
#include <optional>
#include <utility>

#include "planner/verify/verify_parts.h"
#include "planner/verify/verify_program.h"

namespace xrun::planner {
namespace {

class Past {
 public:
  explicit Past(const Program& program) : program_(program), marks_(program.instructions.size()) {
    std::vector<Mark> last(static_cast<size_t>(program.devices) * 2);  // of each stream
    for (const Instruction& one : program.instructions) {
      Mark& mine = marks_[static_cast<size_t>(one.id.index)];
      const size_t stream = stream_of(one);
      Mark& before = last[static_cast<size_t>(one.device) * 2 + stream];
      mine.place = before.place + 1;
      mine.seen = before.seen;
      for (const InstructionId dep : one.deps) {
        include(mine, stream, dep, kReceived);
      }
      for (const InstructionId dep : one.releases) {
        include(mine, stream, dep, kReleased);
      }
      before = mine;
    }
  }

  // `a` has ended, or come so far, before `b` of the same device begins.
  bool received(int32_t a, int32_t b) const { return ordered(a, b, kReceived); }
  bool released(int32_t a, int32_t b) const { return ordered(a, b, kReleased); }

 private:
  enum Event : uint8_t { kReceived, kReleased };
  struct Mark {
    int32_t place = 0;  // in its stream, from 1
    int32_t seen = 0;   // of the other stream: computations that have ended, or exchanges that were posted
    // For an exchange: the first place in each stream that begins after the event; by event, by stream.
    int32_t known[2][2] = {{INT32_MAX, INT32_MAX}, {INT32_MAX, INT32_MAX}};
  };

  static size_t stream_of(const Instruction& one) { return one.stream == Stream::kComm ? 1 : 0; }
  bool is_beside(size_t index) const { return stream_of(program_.instructions[index]) == 1; }

  void include(Mark& mine, size_t stream, InstructionId dep, Event event) {
    const auto other = static_cast<size_t>(dep.index);
    Mark& theirs = marks_[other];
    if (stream_of(program_.instructions[other]) != stream) {
      mine.seen = std::max(mine.seen, theirs.place);
    }
    if (is_beside(other)) {
      theirs.known[event][stream] = std::min(theirs.known[event][stream], mine.place);
    }
  }

  bool ordered(int32_t a, int32_t b, Event event) const {
    const Mark& first = marks_[static_cast<size_t>(a)];
    const Mark& second = marks_[static_cast<size_t>(b)];
    const size_t stream = stream_of(program_.instructions[static_cast<size_t>(b)]);
    if (!is_beside(static_cast<size_t>(a))) {
      return stream == 0 ? first.place < second.place : first.place <= second.seen;
    }
    return first.known[event][stream] <= second.place || first.known[event][1 - stream] <= second.seen;
  }

  const Program& program_;
  std::vector<Mark> marks_;  // by instruction
};

// Accesses of every buffer in list order.
struct Touch {
  int32_t instruction = 0;
  bool read = false;
  bool write = false;
};

// Whether an access to a buffer is over before an instruction begins that also touches the buffer or its bytes: what it
// wrote is complete, and, unless the other only reads, what it read may be overwritten.
bool is_over(const Past& past, const Touch& touch, int32_t instruction, bool reads_only) {
  return (!touch.write || past.received(touch.instruction, instruction)) &&
         (!touch.read || reads_only || past.released(touch.instruction, instruction));
}

// Whether two instructions may touch the same bytes of a buffer; only exchanges are known to touch parts.
bool meet(const Instruction& first, const Instruction& second, BufferId id) {
  const auto touches = [&](const Operand& operand) { return operand.buffer == id; };
  return !communicates(first.kind) || !communicates(second.kind) ||
         std::ranges::any_of(first.operands, [&](const Operand& a) {
           return touches(a) && std::ranges::any_of(second.operands, [&](const Operand& b) {
                    return touches(b) && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
                  });
         });
}

std::vector<std::vector<Touch>> touches_of(const Program& program) {
  std::vector<std::vector<Touch>> accesses(program.buffers.size());
  for (const Instruction& one : program.instructions) {
    for (const bool write : {false, true}) {
      for (const BufferId id : write ? one.writes : one.reads) {
        auto& list = accesses[static_cast<size_t>(id.index)];
        if (list.empty() || list.back().instruction != one.id.index) {
          list.push_back({one.id.index});
        }
        (write ? list.back().write : list.back().read) = true;
      }
    }
  }
  return accesses;
}

// The most comparisons while accesses and memory are checked against the order: some seconds of work.
constexpr int64_t kMostWork = int64_t{1} << 33;
constexpr int64_t kMeetWork = 16;  // of a pair of operands

Error too_much() {
  return wrong(
      "its dependences, operands and shared bytes are more than can be verified: plan for fewer devices or "
      "micro-batches");
}

bool lasts(const Program& program, const Buffer& buffer) {
  return buffer.persistent || (buffer.purpose == Purpose::kResult && buffer.head_pass < 0) ||
         (buffer.purpose == Purpose::kHeadSoftmax && !program.training);
}

}  // namespace

Status verify_order(const Program& program) {
  int64_t work = 0;
  for (const Instruction& one : program.instructions) {
    work += 1 + count(one.deps) + count(one.releases) + count(one.reads) + count(one.writes);
  }
  if (work > kMostWork) {
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
    // An in-place read and write counts as a write; its input was written by another instruction before.
    if (!buffer.persistent && list.front().write) {
      const Instruction& first = program.instruction(InstructionId(list.front().instruction));
      if (std::find(first.reads.begin(), first.reads.end(), buffer.id) != first.reads.end()) {
        return wrong("buffer {} ({}) is read before it was written", b, buffer.name);
      }
    }
    // The last write, or exchanges that each write parts of the buffer, and all accesses since. A read is compared with
    // the writes among them, a write with all; the order with earlier accesses follows.
    std::vector<Touch> writes;
    std::vector<Touch> all;
    for (const Touch& touch : list) {
      const Instruction& second = program.instruction(InstructionId(touch.instruction));
      bool joins = touch.write;
      for (const Touch& before : touch.write ? all : writes) {
        const Instruction& first = program.instruction(InstructionId(before.instruction));
        work += 1 + (communicates(second.kind) ? kMeetWork * count(first.operands) * count(second.operands) : 0);
        if (work > kMostWork) {
          return too_much();
        }
        const bool meets = meet(first, second, buffer.id);
        joins = joins && !meets;
        if (meets && !is_over(past, before, touch.instruction, !touch.write)) {
          return wrong("instructions {} and {} touch buffer {} ({}) in no order", before.instruction, touch.instruction,
                       b, buffer.name);
        }
      }
      if (touch.write && !joins) {
        writes.clear();
        all.clear();
      }
      all.push_back(touch);
      if (touch.write) {
        writes.push_back(touch);
      }
    }
  }
  return {};
}

Status verify_memory(const Program& program, Bytes memory) {
  const Past past(program);
  const auto accesses = touches_of(program);
  const auto end = static_cast<int32_t>(program.instructions.size()) - 1;
  std::vector<std::vector<int32_t>> of_device(static_cast<size_t>(program.devices) + 1);
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    const Arena& arena = program.arenas[static_cast<size_t>(buffer.device + 1)];
    const bool mapped = is_mapped(program, buffer);
    const Bytes begin = mapped ? align_up(arena.bytes, kMappedAlignment) : 0;
    const Bytes most = mapped ? begin + mapped_bytes(program, buffer.device) : arena.bytes;
    if (buffer.offset < begin || buffer.offset + buffer.bytes > most ||
        (mapped && buffer.offset % kMappedAlignment != 0)) {
      return wrong("buffer {} ({}) lies at bytes {} to {} of an arena of {}", b, buffer.name, buffer.offset,
                   buffer.offset + buffer.bytes, arena.bytes);
    }
    const auto& list = accesses[b];
    const int32_t first = buffer.persistent || list.empty() ? 0 : list.front().instruction;
    const int32_t last = lasts(program, buffer) || list.empty() ? end : list.back().instruction;
    if (first != buffer.first_use || last != buffer.last_use) {
      return wrong("buffer {} ({}) is used from {} to {}, not from {} to {}", b, buffer.name, first, last,
                   buffer.first_use, buffer.last_use);
    }
    if (buffer.bytes > 0) {
      of_device[static_cast<size_t>(buffer.device + 1)].push_back(static_cast<int32_t>(b));
    }
  }
  int64_t work = 0;
  // Streams begin in order, so only the first access to b in each stream counts.
  const auto ends_before = [&](const Buffer& a, const Buffer& b) {
    if (lasts(program, a) || b.persistent || a.last_use >= b.first_use) {
      return false;
    }
    bool began[2] = {false, false};
    for (const Touch& second : accesses[static_cast<size_t>(b.id.index)]) {
      const Stream stream = program.instructions[static_cast<size_t>(second.instruction)].stream;
      if (std::exchange(began[stream == Stream::kComm ? 1 : 0], true)) {
        continue;
      }
      for (const Touch& first : accesses[static_cast<size_t>(a.id.index)]) {
        ++work;
        if (!is_over(past, first, second.instruction, false)) {
          return false;
        }
      }
    }
    return true;
  };
  Bytes total = 0;
  for (size_t d = 0; d < of_device.size(); ++d) {
    auto& buffers = of_device[d];
    std::sort(buffers.begin(), buffers.end(), [&](int32_t a, int32_t b) {
      return program.buffers[static_cast<size_t>(a)].offset < program.buffers[static_cast<size_t>(b)].offset;
    });
    std::vector<Bytes> change(static_cast<size_t>(end) + 2, 0);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& a = program.buffers[static_cast<size_t>(buffers[i])];
      const Bytes counted = is_mapped(program, a) ? 0 : align_up(a.bytes);
      change[static_cast<size_t>(a.first_use)] += counted;
      change[static_cast<size_t>(a.last_use) + 1] -= counted;
      for (size_t j = i + 1; j < buffers.size(); ++j) {
        const Buffer& b = program.buffers[static_cast<size_t>(buffers[j])];
        if (b.offset >= a.offset + a.bytes) {
          break;
        }
        ++work;
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
