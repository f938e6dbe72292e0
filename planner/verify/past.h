// The order between the instructions of a device that holds in every run. A place is the position of an instruction in
// its stream. Computations of a device end in order. Exchanges that run in parallel are posted in order but complete in
// any order. For each instruction and each stream of its device, this class finds the first place in the stream that
// begins only after the instruction has ended. For a computation, this follows from the number of computations that are
// known to have ended. For an exchange, it follows from the places in both streams at which it is known to be received,
// or released. One place is sufficient, since a fact known to one instruction of a stream is known to all later ones.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/program/program.h"

namespace xrun::planner {

class Past {
 public:
  enum Event : uint8_t { kReceived, kReleased };
  static constexpr int32_t kNever = std::numeric_limits<int32_t>::max();

  // REQUIRES: verify_structure has accepted `program`, which must outlive the object. Takes O(n log n) time.
  explicit Past(const Program& program);

  static size_t stream_of(const Instruction& one) { return one.stream == Stream::kComm ? 1 : 0; }
  int32_t place(int32_t instruction) const { return marks_[static_cast<size_t>(instruction)].place; }
  // The first place in a stream of the instruction's device that begins after the event; kNever if none is known.
  int32_t since(int32_t instruction, Event event, size_t stream) const {
    return marks_[static_cast<size_t>(instruction)].since[event][stream];
  }

  // Whether `a` has ended, or an exchange has been received, before `b` of the same device begins.
  bool received(int32_t a, int32_t b) const { return ordered(a, b, kReceived); }
  bool released(int32_t a, int32_t b) const { return ordered(a, b, kReleased); }

 private:
  struct Mark {
    int32_t place = 0;                                           // position in its stream, from 1
    int32_t since[2][2] = {{kNever, kNever}, {kNever, kNever}};  // index: event, stream
  };

  bool ordered(int32_t a, int32_t b, Event event) const {
    return since(a, event, stream_of(program_.instructions[static_cast<size_t>(b)])) <= place(b);
  }

  const Program& program_;
  std::vector<Mark> marks_;  // index: instruction
};

}  // namespace xrun::planner
