#include "planner/verify/past.h"

#include <algorithm>

namespace xrun::planner {

Past::Past(const Program& program) : program_(program), marks_(program.instructions.size()) {
  // For each device and stream, an entry for each place of the stream (index: place - 1): how many instructions of the
  // other stream are known to have ended (computations) or to have been posted (exchanges) when the instruction at this
  // place begins.
  std::vector<std::vector<int32_t>> seen(static_cast<size_t>(program.devices) * 2);
  const auto seen_of = [&](const Instruction& one, size_t stream) -> std::vector<int32_t>& {
    return seen[static_cast<size_t>(one.device) * 2 + stream];
  };
  const auto exchanges_beside = [](const Instruction& one) { return stream_of(one) == 1; };
  for (const Instruction& one : program.instructions) {
    Mark& mine = marks_[static_cast<size_t>(one.id.index)];
    const size_t stream = stream_of(one);
    std::vector<int32_t>& places = seen_of(one, stream);
    mine.place = static_cast<int32_t>(places.size()) + 1;
    int32_t other = places.empty() ? 0 : places.back();
    for (const Event event : {kReceived, kReleased}) {
      for (const InstructionId dep : event == kReceived ? one.deps : one.releases) {
        const Instruction& before = program.instruction(dep);
        Mark& theirs = marks_[static_cast<size_t>(dep.index)];
        if (stream_of(before) != stream) {
          other = std::max(other, theirs.place);
        }
        if (exchanges_beside(before)) {
          theirs.since[event][stream] = std::min(theirs.since[event][stream], mine.place);
        }
      }
    }
    places.push_back(other);
  }
  // A fact that is known at a place in one stream is known in the other stream from the first instruction on that waits
  // for this place.
  const auto first_that_saw = [&](const Instruction& one, size_t stream, int32_t place) {
    const std::vector<int32_t>& places = seen_of(one, stream);
    const auto found = std::lower_bound(places.begin(), places.end(), place);
    return found == places.end() ? kNever : static_cast<int32_t>(found - places.begin()) + 1;
  };
  for (const Instruction& one : program.instructions) {
    Mark& mark = marks_[static_cast<size_t>(one.id.index)];
    for (auto& since : mark.since) {
      if (exchanges_beside(one)) {
        const int32_t learned[2] = {since[0], since[1]};
        for (const size_t stream : {0, 1}) {
          since[stream] = std::min(learned[stream], first_that_saw(one, stream, learned[1 - stream]));
        }
      } else {
        since[0] = mark.place + 1;
        since[1] = first_that_saw(one, 1, mark.place);
      }
    }
  }
}

}  // namespace xrun::planner
