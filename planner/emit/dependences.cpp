// Finds the instructions that an instruction must wait for, except those that the order of its stream or other waits
// imply.
//
// All instructions that access a buffer belong to one device, so each device is handled separately. The instructions
// are processed in order. For each one, the accesses to its buffers, and to earlier buffers in the same memory, give a
// list of events to wait for; an event that is already known to have happened is dropped. Computations of a device end
// in order, so a position in the stream is sufficient to know which of them have ended. Exchanges that run in parallel
// (the stream kComm) are posted in order, but received and released in any order. So the algorithm records for each
// exchange and each stream the position in the stream from which the exchange is known to be received, and the one from
// which it is known to be released. For each instruction it records the progress of the other stream when the
// instruction begins.
// Tests: tests/planner/emit/emit_test.cpp, tests/planner/verify/verify_program_test.cpp
#include "planner/emit/dependences.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <span>

namespace xrun::planner {
namespace {

// An event to wait for: an exchange has received its blocks, or has released the blocks that it sends.
enum Event : uint8_t { kReceived, kReleased };

struct Wait {
  int32_t instruction = 0;
  Event event = kReceived;
  bool operator>(const Wait& other) const {
    return instruction != other.instruction ? instruction > other.instruction : event > other.event;
  }
  bool operator==(const Wait&) const = default;
};

// The bytes that an exchange touches, by buffer; adjacent blocks are one range.
struct Range {
  BufferId buffer;
  Bytes begin = 0;
  Bytes end = 0;
};

std::vector<Range> ranges_of(const Instruction& exchange) {
  std::vector<Range> all;
  for (const Operand& operand : exchange.operands) {
    for_each_range(operand, [&](Bytes begin, Bytes end) { all.push_back({operand.buffer, begin, end}); });
  }
  std::ranges::sort(all, {}, [](const Range& range) { return std::pair(range.buffer, range.begin); });
  std::vector<Range> merged;
  for (const Range& range : all) {
    if (!merged.empty() && merged.back().buffer == range.buffer && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

class Deriver {
 public:
  explicit Deriver(Program& program)
      : program_(program),
        place_(program.instructions.size(), 0),
        other_(program.instructions.size(), 0),
        known_(program.instructions.size()),
        writers_(program.buffers.size()),
        readers_(program.buffers.size()),
        seen_(program.buffers.size(), false),
        devices_(static_cast<size_t>(program.devices)),
        ranges_(program.instructions.size()) {
    for (const Instruction& one : program.instructions) {
      if (communicates(one.kind)) {
        ranges_[static_cast<size_t>(one.id.index)] = ranges_of(one);
      }
    }
  }

  void run() {
    for (Instruction& instruction : program_.instructions) {
      derive(instruction);
      touch(instruction);
    }
  }

 private:
  struct Tenant {
    Bytes end = 0;
    BufferId buffer;
  };
  struct DeviceState {
    std::array<int32_t, 2> count{};   // number of instructions of each stream so far
    std::array<int32_t, 2> other{};   // number of instructions of the other stream known to have ended or been posted
    std::map<Bytes, Tenant> tenants;  // the last buffer in each part of the arena; key: first byte
  };
  // The positions in the streams from which an exchange is known to be received, or released; index: event, then
  // stream.
  struct Known {
    std::array<std::array<int32_t, 2>, 2> since{{{INT32_MAX, INT32_MAX}, {INT32_MAX, INT32_MAX}}};
  };

  static size_t stream_of(const Instruction& instruction) { return static_cast<size_t>(instruction.stream); }
  const Instruction& at(int32_t index) const { return program_.instructions[static_cast<size_t>(index)]; }
  bool is_beside(const Instruction& one) const { return one.stream == Stream::kComm; }

  void derive(Instruction& instruction) {
    DeviceState& device = devices_[static_cast<size_t>(instruction.device)];
    const auto index = static_cast<size_t>(instruction.id.index);
    const size_t stream = stream_of(instruction);
    place_[index] = ++device.count[stream];
    other_[index] = device.other[stream];
    std::vector<Wait> waits = candidates(instruction);
    std::sort(waits.begin(), waits.end(), std::greater<>());  // latest first, since later waits may imply earlier ones
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    instruction.deps.clear();
    instruction.releases.clear();
    for (const Wait& wait : waits) {
      if (!is_known(instruction, wait)) {
        (wait.event == kReleased ? instruction.releases : instruction.deps).emplace_back(wait.instruction);
        learn(instruction, wait);
      }
    }
    std::sort(instruction.deps.begin(), instruction.deps.end());
    std::sort(instruction.releases.begin(), instruction.releases.end());
    device.other[stream] = other_[index];
  }

  // Whether the event is known to have occurred when the instruction begins.
  bool is_known(const Instruction& instruction, const Wait& wait) const {
    const auto index = static_cast<size_t>(instruction.id.index);
    const auto before = static_cast<size_t>(wait.instruction);
    const size_t stream = stream_of(instruction);
    if (!is_beside(at(wait.instruction))) {
      return stream == 0 || place_[before] <= other_[index];
    }
    const auto& since = known_[before].since[wait.event];
    return since[stream] <= place_[index] || since[1 - stream] <= other_[index];
  }

  void learn(const Instruction& instruction, const Wait& wait) {
    const auto index = static_cast<size_t>(instruction.id.index);
    const auto before = static_cast<size_t>(wait.instruction);
    const size_t stream = stream_of(instruction);
    if (is_beside(at(wait.instruction))) {
      int32_t& since = known_[before].since[wait.event][stream];
      since = std::min(since, place_[index]);
    }
    if (stream != stream_of(at(wait.instruction))) {
      other_[index] = std::max(other_[index], place_[before]);
    }
  }

  std::vector<Wait> candidates(const Instruction& instruction) {
    std::vector<Wait> waits;
    for (const BufferId id : instruction.reads) {
      add_writers(instruction, id, waits);
    }
    for (const BufferId id : instruction.writes) {
      add_writers(instruction, id, waits);
      add_readers(instruction, id, waits);
    }
    for (const auto* list : {&instruction.reads, &instruction.writes}) {
      for (const BufferId id : *list) {
        if (!seen_[static_cast<size_t>(id.index)]) {
          occupy(program_.buffer(id), waits);
        }
      }
    }
    return waits;
  }

  // Whether two instructions may access the same bytes of a buffer. A computation counts as accessing the whole buffer.
  bool meet(const Instruction& one, const Instruction& other, BufferId id) const {
    if (!communicates(one.kind) || !communicates(other.kind)) {
      return true;
    }
    auto a = ranges_in(one, id);
    auto b = ranges_in(other, id);
    while (!a.empty() && !b.empty()) {
      if (a.front().begin < b.front().end && b.front().begin < a.front().end) {
        return true;
      }
      auto& first = a.front().end <= b.front().end ? a : b;
      first = first.subspan(1);
    }
    return false;
  }

  std::span<const Range> ranges_in(const Instruction& exchange, BufferId id) const {
    const std::vector<Range>& all = ranges_[static_cast<size_t>(exchange.id.index)];
    const auto found = std::ranges::equal_range(all, id, {}, &Range::buffer);
    return {found.begin(), found.end()};
  }

  void add_writers(const Instruction& instruction, BufferId id, std::vector<Wait>& waits) const {
    for (const int32_t writer : writers_[static_cast<size_t>(id.index)]) {
      if (meet(instruction, at(writer), id)) {
        waits.push_back({writer, kReceived});
      }
    }
  }

  void add_readers(const Instruction& instruction, BufferId id, std::vector<Wait>& waits) const {
    for (const int32_t reader : readers_[static_cast<size_t>(id.index)]) {
      if (meet(instruction, at(reader), id)) {
        waits.push_back(end_of_read(reader));
      }
    }
  }

  // Returns the event after which the bytes that an instruction reads may be overwritten: the end of a computation, or
  // the release of the blocks that an exchange sends.
  Wait end_of_read(int32_t reader) const { return {reader, is_beside(at(reader)) ? kReleased : kReceived}; }

  // The first access to a buffer waits for all accesses to the buffers that previously had its bytes.
  void occupy(const Buffer& buffer, std::vector<Wait>& waits) {
    seen_[static_cast<size_t>(buffer.id.index)] = true;
    if (buffer.device == kHost || buffer.persistent || buffer.bytes == 0) {
      return;
    }
    auto& tenants = devices_[static_cast<size_t>(buffer.device)].tenants;
    const Bytes begin = buffer.offset;
    const Bytes end = begin + align_up(buffer.bytes);
    auto at = tenants.upper_bound(begin);
    if (at != tenants.begin() && std::prev(at)->second.end > begin) {
      --at;
    }
    while (at != tenants.end() && at->first < end) {
      const auto [first, tenant] = *at;
      for (const int32_t writer : writers_[static_cast<size_t>(tenant.buffer.index)]) {
        waits.push_back({writer, kReceived});
      }
      for (const int32_t reader : readers_[static_cast<size_t>(tenant.buffer.index)]) {
        waits.push_back(end_of_read(reader));
      }
      // Bytes outside the new buffer still belong to the old buffer.
      at = tenants.erase(at);
      if (first < begin) {
        tenants.emplace_hint(at, first, Tenant{begin, tenant.buffer});
      }
      if (tenant.end > end) {
        at = tenants.emplace_hint(at, end, tenant);
      }
    }
    tenants.emplace_hint(at, begin, Tenant{end, buffer.id});
  }

  // An exchange that sends a part of a buffer and receives another part both reads and writes it. An exchange that
  // writes parts which no listed access has touched joins the writers; any other write replaces both lists.
  void touch(const Instruction& instruction) {
    for (const BufferId id : instruction.writes) {
      auto& writers = writers_[static_cast<size_t>(id.index)];
      auto& readers = readers_[static_cast<size_t>(id.index)];
      const auto apart = [&](int32_t other) { return !meet(instruction, at(other), id); };
      if (!std::all_of(writers.begin(), writers.end(), apart) || !std::all_of(readers.begin(), readers.end(), apart)) {
        writers.clear();
        readers.clear();
      }
      writers.push_back(instruction.id.index);
    }
    for (const BufferId id : instruction.reads) {
      const auto& writers = writers_[static_cast<size_t>(id.index)];
      const bool written = !writers.empty() && writers.back() == instruction.id.index;
      if (!written || is_beside(instruction)) {
        readers_[static_cast<size_t>(id.index)].push_back(instruction.id.index);
      }
    }
  }

  Program& program_;
  std::vector<int32_t> place_;                 // index: instruction; its position in its stream, from 1
  std::vector<int32_t> other_;                 // index: instruction; progress of the other stream
  std::vector<Known> known_;                   // index: instruction; set only for exchanges
  std::vector<std::vector<int32_t>> writers_;  // index: buffer; the last writer, or exchanges that each wrote a part
  std::vector<std::vector<int32_t>> readers_;  // index: buffer; readers since the last write
  std::vector<bool> seen_;                     // index: buffer; whether an instruction has used it
  std::vector<DeviceState> devices_;
  std::vector<std::vector<Range>> ranges_;  // index: instruction; empty except for exchanges
};

}  // namespace

void derive_dependences(Program& program) { Deriver(program).run(); }

}  // namespace xrun::planner
