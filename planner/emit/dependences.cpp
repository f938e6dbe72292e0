// Vector clocks: for each instruction, how far each (device, stream) is known to have come when it begins and when it
// ends. Members of a group end together. The clock of an instruction that begins covers another one exactly if that one
// happens before it, so a dependency is written down only where the clock does not have it.
#include "planner/emit/dependences.h"

#include <algorithm>
#include <map>

namespace xrun::planner {
namespace {

using Clock = std::vector<int32_t>;  // by stream: instructions of it that are known to have ended

class Deriver {
 public:
  explicit Deriver(Program& program)
      : program_(program),
        streams_(static_cast<size_t>(program.devices) * 2),
        ended_(program.instructions.size()),
        place_(program.instructions.size()),
        writer_(program.buffers.size()),
        readers_(program.buffers.size()),
        seen_(program.buffers.size(), false),
        now_(streams_, Clock(streams_, 0)),
        count_(streams_, 0),
        memory_(static_cast<size_t>(program.devices)) {}

  void run() {
    const size_t count = program_.instructions.size();
    for (size_t begin = 0; begin < count;) {
      size_t end = begin + 1;
      const int group = program_.instructions[begin].group;
      while (group >= 0 && end < count && program_.instructions[end].group == group) {
        ++end;
      }
      // All members look at what was before the group, then the group ends.
      std::vector<Clock> clocks;
      for (size_t i = begin; i < end; ++i) {
        clocks.push_back(begin_of(program_.instructions[i]));
      }
      Clock joined = clocks[0];
      for (const Clock& clock : clocks) {
        merge(joined, clock);
      }
      for (size_t i = begin; i < end; ++i) {
        const size_t stream = stream_of(program_.instructions[i]);
        place_[i] = ++count_[stream];
        joined[stream] = std::max(joined[stream], place_[i]);
      }
      for (size_t i = begin; i < end; ++i) {
        ended_[i] = joined;
        now_[stream_of(program_.instructions[i])] = joined;
        touch(program_.instructions[i]);
      }
      begin = end;
    }
  }

 private:
  static void merge(Clock& into, const Clock& from) {
    for (size_t s = 0; s < into.size(); ++s) {
      into[s] = std::max(into[s], from[s]);
    }
  }

  static size_t stream_of(const Instruction& instruction) {
    return static_cast<size_t>(instruction.device) * 2 + static_cast<size_t>(instruction.stream);
  }

  // The clock at its beginning; writes down what it must wait for.
  Clock begin_of(Instruction& instruction) {
    std::vector<int32_t> candidates;
    const auto add = [&](const std::vector<int32_t>& list) {
      candidates.insert(candidates.end(), list.begin(), list.end());
    };
    for (const BufferId id : instruction.reads) {
      add(writer_[static_cast<size_t>(id.index)]);
    }
    for (const BufferId id : instruction.writes) {
      add(writer_[static_cast<size_t>(id.index)]);
      add(readers_[static_cast<size_t>(id.index)]);
    }
    for (const auto* list : {&instruction.reads, &instruction.writes}) {
      for (const BufferId id : *list) {
        if (!seen_[static_cast<size_t>(id.index)]) {
          occupy(program_.buffer(id), candidates);
        }
      }
    }
    std::sort(candidates.begin(), candidates.end(), std::greater<>());
    Clock clock = now_[stream_of(instruction)];
    instruction.deps.clear();
    for (const int32_t other : candidates) {
      const auto at = static_cast<size_t>(other);
      const size_t stream = stream_of(program_.instructions[at]);
      if (clock[stream] < place_[at]) {
        instruction.deps.push_back(InstructionId(other));
        merge(clock, ended_[at]);
      }
    }
    std::sort(instruction.deps.begin(), instruction.deps.end());
    return clock;
  }

  // A buffer that is touched first takes its bytes from those who had them.
  void occupy(const Buffer& buffer, std::vector<int32_t>& candidates) {
    seen_[static_cast<size_t>(buffer.id.index)] = true;
    if (buffer.device == kHost || buffer.persistent || buffer.bytes == 0) {
      return;
    }
    auto& tenants = memory_[static_cast<size_t>(buffer.device)];
    const Bytes end = buffer.offset + align_up(buffer.bytes);
    for (auto at = tenants.begin(); at != tenants.end();) {
      const Buffer& other = program_.buffer(*at);
      if (other.offset < end && buffer.offset < other.offset + align_up(other.bytes)) {
        const auto index = static_cast<size_t>(other.id.index);
        candidates.insert(candidates.end(), writer_[index].begin(), writer_[index].end());
        candidates.insert(candidates.end(), readers_[index].begin(), readers_[index].end());
        // Bytes that the newcomer leaves free keep their former tenant in mind.
        const bool covered = buffer.offset <= other.offset && other.offset + align_up(other.bytes) <= end;
        at = covered ? tenants.erase(at) : std::next(at);
      } else {
        ++at;
      }
    }
    tenants.push_back(buffer.id);
  }

  void touch(const Instruction& instruction) {
    for (const BufferId id : instruction.writes) {
      writer_[static_cast<size_t>(id.index)] = {instruction.id.index};
      readers_[static_cast<size_t>(id.index)].clear();
    }
    for (const BufferId id : instruction.reads) {
      if (std::find(instruction.writes.begin(), instruction.writes.end(), id) == instruction.writes.end()) {
        readers_[static_cast<size_t>(id.index)].push_back(instruction.id.index);
      }
    }
  }

  Program& program_;
  size_t streams_;
  std::vector<Clock> ended_;                   // by instruction
  std::vector<int32_t> place_;                 // by instruction: its number in its stream, from 1
  std::vector<std::vector<int32_t>> writer_;   // by buffer: none or one
  std::vector<std::vector<int32_t>> readers_;  // by buffer: since the last write
  std::vector<bool> seen_;                     // by buffer
  std::vector<Clock> now_;                     // by stream
  std::vector<int32_t> count_;                 // by stream
  std::vector<std::vector<BufferId>> memory_;  // by device: who has had which bytes last
};

}  // namespace

void derive_dependences(Program& program) { Deriver(program).run(); }

}  // namespace xrun::planner
