// The Gantt view: each column is a slice of time, and each line shows the compute stream of a device. Below the lines
// are the causes of idle time, the time of the step, and a proposal for a plan that nearly fills its memory.
// Tests: tests/planner/report/text_test.cpp
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "planner/program/run_memory.h"
#include "planner/report/device_kinds.h"
#include "planner/report/idle.h"
#include "planner/report/reason_text.h"
#include "planner/report/summary.h"
#include "planner/report/text.h"
#include "planner/search/fit.h"

namespace xrun::planner {
namespace {

std::string label_of(const Program& program, const Instruction& instruction) {
  const int local = program.micro_batches / program.replicas;
  const std::string index = std::to_string(instruction.micro_batch < 0 ? 0 : instruction.micro_batch % local);
  switch (instruction.kind) {
    case Kind::kForward:
    case Kind::kBackward:
      return program.letter_of(instruction) + index;
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

// Returns the line with the idle time of the plan and its causes.
std::string idle_line(const Plan& plan, const ProgramTimes& times) {
  const Prediction& predicted = plan.predicted;
  const IdleShares shares = idle_shares(plan.training, times, predicted.step);
  const double exchanges = std::min(shares.communication, predicted.bubble);
  std::string text;
  const auto add = [&](const char* cause, double share) {
    text += share < 5e-4 ? "" : (text.empty() ? ": " : ", ") + std::string(cause) + " " + percent(share);
  };
  add("imbalance", predicted.imbalance);
  add("waiting for other devices", predicted.bubble - exchanges);
  add("communication", exchanges);
  return "idle " + percent(predicted.bubble + predicted.imbalance) + text + "\n";
}

// Returns the line that compares the step with the time that is drawn, which lacks the time for data.
std::string step_line(const Plan& plan, const ProgramTimes& times) {
  const Seconds data = data_time(plan, times);
  return "step " + format_seconds(plan.predicted.step) +
         (data > 5e-4 * plan.predicted.step
              ? ": " + format_seconds(times.makespan) + " as drawn, and " + format_seconds(data) + " for reading data"
              : ", as drawn") +
         "\n";
}

bool memory_binds(const Plan& plan, const Module& module, Bytes largest) {
  const auto nearly = [](Bytes used, Bytes limit) {
    return limit > 0 && static_cast<double>(used) > 0.9 * static_cast<double>(limit);
  };
  const RunMemory memory = run_memory(module, plan.training, plan.inference);
  return (plan.certificate && plan.certificate->limit == Certificate::Limit::kMemory) ||
         nearly(plan.machine.has_gpus() ? memory.largest_device() : largest,
                memory_limits(module, plan.machine).device) ||
         nearly(memory.on_hosts(), plan.machine.memory);
}

// If the plan nearly fills its memory, returns the fastest of the compared plans that need less. The plan itself is the
// fastest of the programs that were made, so there is no other reason for a hint.
std::string hint_of(const Plan& plan, const Module& module) {
  const Bytes largest = largest_device_of(plan.training);
  const Alternative* best = nullptr;
  for (const auto* list : {&plan.alternatives, &plan.other_kinds}) {
    for (const Alternative& other : *list) {
      const bool is_made = !other.is_estimate && !other.stored;
      const bool is_leaner = static_cast<double>(other.memory) < 0.98 * static_cast<double>(largest);
      best = is_made && is_leaner && (best == nullptr || other.step < best->step) ? &other : best;
    }
  }
  if (best == nullptr || !memory_binds(plan, module, largest)) {
    return "";
  }
  return "\nhint: " + settings_text(*best) + " needs " + format_bytes(best->memory) + " instead of " +
         format_bytes(largest) + " on the largest device: " + format_seconds(best->step) + " a step, " +
         note_text(*best) + "\n";
}

}  // namespace

std::string report_gantt(const Plan& plan, const Module& module, int columns) {
  const Program& program = plan.training;
  const ProgramTimes times = times_of(plan);
  std::vector<std::pair<int, std::string>> lines;  // device and its name
  for (int device = 0; device < program.devices; ++device) {
    std::string name;
    for (const Stage& stage : program.stages) {
      for (size_t r = 0; r < stage.devices.size(); ++r) {
        if (stage.devices[r] == device) {
          name += (name.empty() ? "stage " : " + ") + std::to_string(stage.index) +
                  (program.replicas > 1 ? "." + std::to_string(r) : "");
        }
      }
    }
    lines.emplace_back(device, name.empty() ? "device " + std::to_string(device) : std::move(name));
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
  return text + idle_line(plan, times) + step_line(plan, times) + hint_of(plan, module);
}

}  // namespace xrun::planner
