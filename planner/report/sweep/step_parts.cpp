// Steps: choose the device that computes most; add up its computations by kind; attribute the time in which it only
// takes part in exchanges to the exchange that began first; the rest is waiting.
#include "planner/report/sweep/step_parts.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "planner/cost/graph_builds.h"
#include "planner/report/summary.h"

namespace xrun::planner {
namespace {

enum Part {
  kBackbone,
  kHead,
  kHeadExchange,
  kStageExchange,
  kGradientExchange,
  kCopies,
  kCompressed,
  kUpdates,
  kWaiting,
  kData,
  kParts
};
constexpr std::array<const char*, kParts> kNames{"backbone",
                                                 "head",
                                                 "gathers and scatters of heads",
                                                 "sends between stages",
                                                 "exchanges of gradients",
                                                 "copies",
                                                 "compressed gradients",
                                                 "sums and updates",
                                                 "waiting for other devices",
                                                 "waiting for data"};

bool moves(const Instruction& one) { return communicates(one.kind) || one.stream == Stream::kComm; }

Part part_of(const Instruction& one) {
  if (one.kind == Kind::kSend || one.kind == Kind::kRecv) {
    return kStageExchange;
  }
  if (communicates(one.kind)) {
    return one.head >= 0 ? kHeadExchange : kGradientExchange;
  }
  return one.kind == Kind::kCopy                               ? kCopies
         : is_stage_pass(one.kind)                             ? kBackbone
         : is_of_head(one.kind) || one.kind == Kind::kHeadMass ? kHead
         : one.kind == Kind::kCompress                         ? kCompressed
                                                               : kUpdates;
}

// An instruction of the device with its times.
struct Moment {
  Part part = kBackbone;
  InstructionTime time;
};

int busiest_device(const Program& program, const ProgramTimes& times) {
  std::vector<Seconds> busy(static_cast<size_t>(program.devices));
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& one = program.instructions[i];
    busy[static_cast<size_t>(one.device)] += moves(one) ? 0 : times.instructions[i].end - times.instructions[i].start;
  }
  return static_cast<int>(std::ranges::max_element(busy) - busy.begin());
}

// Adds to `sums` the time of each exchange in which neither an earlier exchange runs nor the device computes. `busy` is
// in order, and its moments do not overlap.
void add_exposed(std::vector<Moment> exchanges, const std::vector<Moment>& busy, std::array<Seconds, kParts>& sums) {
  std::ranges::stable_sort(exchanges, {}, [](const Moment& one) { return one.time.start; });
  Seconds covered = 0;
  for (const Moment& one : exchanges) {
    const Seconds begin = std::max(one.time.start, covered);
    const Seconds end = std::max(one.time.end, begin);
    covered = end;
    Seconds hidden = 0;
    auto other = std::ranges::lower_bound(busy, begin, {}, [](const Moment& at) { return at.time.end; });
    for (; other != busy.end() && other->time.start < end; ++other) {
      hidden += std::max(0.0, std::min(end, other->time.end) - std::max(begin, other->time.start));
    }
    sums[one.part] += end - begin - hidden;
  }
}

}  // namespace

StepParts step_parts(const Plan& plan, const Module& module) {
  const Program& program = plan.training;
  const ProgramTimes times = times_of(plan);
  StepParts made{.device = busiest_device(program, times), .parts = {}, .lists = 0};
  std::array<Seconds, kParts> sums{};
  std::array<Seconds, kParts> wholes{};
  std::vector<Moment> busy;
  std::vector<Moment> exchanges;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& one = program.instructions[i];
    if (one.device != made.device) {
      continue;
    }
    const Moment moment{part_of(one), times.instructions[i]};
    wholes[moment.part] += moment.time.end - moment.time.start;
    sums[moment.part] += moves(one) ? 0 : moment.time.end - moment.time.start;
    (moves(one) ? exchanges : busy).push_back(moment);
  }
  add_exposed(std::move(exchanges), busy, sums);
  Seconds all = 0;
  for (const Seconds sum : sums) {
    all += sum;
  }
  sums[kWaiting] = std::max(0.0, times.makespan - all);
  sums[kData] = data_time(plan, times);
  for (size_t p = 0; p < kParts; ++p) {
    if (sums[p] > 0 || wholes[p] > 0) {
      made.parts.push_back({kNames[p], sums[p], std::max(sums[p], wholes[p])});
    }
  }
  if (const auto period = graph_period(plan, module)) {
    made.lists = period->added;
  }
  return made;
}

}  // namespace xrun::planner
