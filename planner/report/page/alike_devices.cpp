// Tests: tests/planner/report/page/html_page_test.cpp
#include "planner/report/page/alike_devices.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace xrun::planner {
namespace {

// The part of an instruction that is equal on devices that are alike.
using Work = std::tuple<Kind, Stream, int, int, int>;

Work work_of(const Program& program, const Instruction& one) {
  const int local = std::max(1, program.micro_batches / program.replicas);
  return {one.kind, one.stream, one.stage, one.micro_batch < 0 ? -1 : one.micro_batch % local, one.head};
}

}  // namespace

std::vector<AlikeDevices> alike_devices(const Program& program, const ProgramTimes& times, int few) {
  const auto count = static_cast<size_t>(program.devices);
  std::vector<std::vector<Work>> works(count);
  std::vector<Seconds> busy(count, 0);
  for (const Instruction& one : program.instructions) {
    if (one.device == kHost) {
      continue;
    }
    const auto device = static_cast<size_t>(one.device);
    const InstructionTime& time = times.instructions[static_cast<size_t>(one.id.index)];
    works[device].push_back(work_of(program, one));
    busy[device] += one.stream == Stream::kCompute ? time.end - time.start : 0;
  }
  std::vector<AlikeDevices> groups;
  std::map<std::vector<Work>, size_t> known;
  for (size_t device = 0; device < count; ++device) {
    const auto [at, is_new] = known.emplace(works[device], groups.size());
    if (is_new || program.devices <= few) {
      groups.push_back({{static_cast<int>(device)}, busy[device], busy[device]});
      continue;
    }
    AlikeDevices& group = groups[at->second];
    group.devices.push_back(static_cast<int>(device));
    group.least_busy = std::min(group.least_busy, busy[device]);
    group.most_busy = std::max(group.most_busy, busy[device]);
  }
  return groups;
}

}  // namespace xrun::planner
