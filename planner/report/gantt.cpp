// The Gantt view: each column is a slice of time, and each line shows the compute stream of a device. Below the lines
// are the reasons why devices are idle, and a proposal that would reduce the idle time, found by simulating the same
// stages with other settings.
// Tests: tests/planner/report/text_test.cpp
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "planner/report/device_kinds.h"
#include "planner/report/summary.h"
#include "planner/report/text.h"
#include "planner/schedules/simulate_schedule.h"

namespace xrun::planner {
namespace {

std::string label_of(const Program& program, const Instruction& instruction) {
  const int local = program.micro_batches / program.replicas;
  const std::string index = std::to_string(instruction.micro_batch < 0 ? 0 : instruction.micro_batch % local);
  switch (instruction.kind) {
    case Kind::kForward:
      return "F" + index;
    case Kind::kBackward:
      return "B" + index;
    case Kind::kHeadSelect:
    case Kind::kHeadForward:
    case Kind::kHeadBackward:
    case Kind::kHeadUpdate:
    case Kind::kHeadNorms:
    case Kind::kReduceStats:
    case Kind::kReduceDx:
    case Kind::kSumDx:
      return "H";
    case Kind::kFoldPartials:
    case Kind::kCompress:
    case Kind::kSumTied:
    case Kind::kSumReplicas:
    case Kind::kNorm:
    case Kind::kUpdate:
      return "U";
    default:
      return "";
  }
}

std::string line_of(const Program& program, const ProgramTimes& times, int device, size_t width) {
  std::string line(width, '.');
  const double scale = static_cast<double>(width) / times.makespan;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const std::string label = label_of(program, instruction);
    if (instruction.device != device || instruction.stream != Stream::kCompute || label.empty()) {
      continue;
    }
    const auto begin = std::min(width - 1, static_cast<size_t>(times.instructions[i].start * scale + 1e-9));
    const auto end = std::clamp(static_cast<size_t>(std::llround(times.instructions[i].end * scale)), begin, width);
    // An instruction that is shorter than half a column is not drawn, so that it does not hide its neighbour.
    for (size_t c = begin; c < end; ++c) {
      line[c] = c - begin < label.size() ? label[c - begin] : '=';
    }
  }
  return line;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

// Simulates the stages of a program with another schedule or number of micro-batches (of each replica). Sets `held` to
// the number of micro-batches that the first stage holds.
ScheduleTimes simulate_stages(const Program& program, PipelineKind kind, int micro_batches, int& held) {
  ScheduleRequest request{.micro_batches = micro_batches};
  const int own = program.micro_batches / program.replicas;  // micro-batches of each replica
  const double part = static_cast<double>(own) / micro_batches;
  for (const Stage& stage : program.stages) {
    request.forward.push_back(stage.forward_time * part);
    request.backward.push_back(stage.backward_time * part);
  }
  const Schedule schedule = make_schedule(kind, request);
  held = in_flight(schedule, 0);
  return simulate(schedule, request);
}

// Returns a text about the gain of more micro-batches, or of the other schedule.
std::string hint_of(const Program& program) {
  if (program.stages.size() < 2) {
    return "";
  }
  const int local = program.micro_batches / program.replicas;
  const auto blocks = static_cast<int>(program.batch / program.norm_rows / program.replicas);
  int held = 0;
  const ScheduleTimes now = simulate_stages(program, program.schedule, local, held);
  std::string text;
  if (blocks % (2 * local) == 0) {
    const int count = blocks % (4 * local) == 0 ? 4 * local : 2 * local;
    int unused = 0;
    const ScheduleTimes more = simulate_stages(program, program.schedule, count, unused);
    text += "micro_batches = " + std::to_string(count * program.replicas) + " idles " +
            percent(more.bubble + more.imbalance);
  }
  if (program.schedule == PipelineKind::kGpipe && local > 1) {
    int fewer = 0;
    const ScheduleTimes other = simulate_stages(program, PipelineKind::kOneFOneB, local, fewer);
    const bool same = std::abs(other.makespan - now.makespan) < 1e-3 * now.makespan;
    if (same && fewer >= held) {
      return text.empty() ? "" : "\nhint: " + text + "\n";
    }
    text += (text.empty() ? "" : "; ") + std::string("pipeline = one_f_one_b ") + (same ? "keeps " : "idles ") +
            percent(other.bubble + other.imbalance);
    if (fewer != held) {
      text += (same || fewer > held ? " but holds " : " and holds ") + std::to_string(fewer) + " instead of " +
              std::to_string(held) + " micro-batches on stage 0";
    }
  }
  return text.empty() ? "" : "\nhint: " + text + "\n";
}

}  // namespace

std::string report_gantt(const Plan& plan, int columns) {
  const Program& program = plan.training;
  const ProgramTimes times = times_of(plan);
  std::vector<std::pair<int, std::string>> lines;  // device and its name
  for (int device = 0; device < program.devices; ++device) {
    std::string name = "device " + std::to_string(device);
    for (const Stage& stage : program.stages) {
      for (size_t r = 0; r < stage.devices.size(); ++r) {
        if (stage.devices[r] == device) {
          name = "stage " + std::to_string(stage.index) + (program.replicas > 1 ? "." + std::to_string(r) : "");
        }
      }
    }
    lines.emplace_back(device, std::move(name));
  }
  size_t name_width = 0;
  for (const auto& [device, name] : lines) {
    name_width = std::max(name_width, name.size());
  }
  const size_t width = static_cast<size_t>(std::max(40, columns)) - std::min<size_t>(24, name_width) - 3;
  const auto stages = program.stages.size();
  std::string text = std::to_string(stages) + (stages == 1 ? " stage, " : " stages, ") +
                     (program.replicas > 1 ? std::to_string(program.replicas) + " replicas, " : "") +
                     std::to_string(program.micro_batches) +
                     (program.micro_batches == 1 ? " micro-batch, " : " micro-batches, ") +
                     "1 column = " + format_seconds(times.makespan / static_cast<double>(width)) + "\n";
  std::vector<NamedRow> rows;
  for (const auto& [device, name] : lines) {
    rows.push_back({name, "|" + line_of(program, times, device, width) + "|"});
  }
  for (NamedRow& row : folded_rows(rows)) {
    row.name.resize(name_width, ' ');
    text += row.name + " " + row.text + "\n";
  }
  text += "F, B: forward, backward of a micro-batch; H: head; U: sums and update; =: continues; .: waits\n";
  // The schedule of the stages explains the bubble and the imbalance. All other idle time is waiting for other
  // instructions.
  const Prediction& predicted = plan.predicted;
  const double others = times.bubble - predicted.bubble - predicted.imbalance;
  text += "idle " + percent(predicted.bubble + predicted.imbalance) + ": fill and drain " + percent(predicted.bubble) +
          ", imbalance " + percent(predicted.imbalance) +
          (others > 5e-4 ? "; waiting for heads and communication " + percent(others) : "") + "\n";
  return text + hint_of(program);
}

}  // namespace xrun::planner
