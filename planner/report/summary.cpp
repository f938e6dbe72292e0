// Tests: tests/planner/report/text_test.cpp
#include "planner/report/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "graph/base/check.h"
#include "graph/settings/step_sizes.h"
#include "planner/cost/graph_builds.h"
#include "planner/report/explain.h"
#include "planner/search/fit.h"

namespace xrun::planner {
namespace {

bool is_head_buffer(Purpose purpose) {
  return purpose == Purpose::kHeadWeight || purpose == Purpose::kHeadOptimizer || purpose == Purpose::kHeadPrepared ||
         purpose == Purpose::kHeadScale || purpose == Purpose::kHeadLast || purpose == Purpose::kHeadSelection ||
         purpose == Purpose::kHeadMass || purpose == Purpose::kHeadStats || purpose == Purpose::kHeadSoftmax ||
         purpose == Purpose::kHeadLogits || purpose == Purpose::kHeadGradient || purpose == Purpose::kHeadScratch ||
         purpose == Purpose::kGathered || purpose == Purpose::kTerms || purpose == Purpose::kHeadSums;
}

int largest_device(const Program& program) {
  const Arena* largest = nullptr;
  for (const Arena& arena : program.arenas) {
    if (arena.device != kHost && (largest == nullptr || arena.bytes > largest->bytes)) {
      largest = &arena;
    }
  }
  return largest != nullptr ? largest->device : kHost;
}

// Returns the bytes of the buffers for which `wanted` is true, at the time when the device uses most memory.
template <typename Pred>
Bytes at_peak(const Program& program, int device, const Pred& wanted) {
  Bytes sum = 0;
  for (const BufferId id : live_at_peak(program, device)) {
    sum += wanted(program.buffer(id)) ? align_up(program.buffer(id).bytes) : 0;
  }
  return sum;
}

// Sets the memory of a part to its bytes on the largest device. If the part has no memory there, its bytes on the
// device that has most of the part are used.
template <typename Pred>
void set_memory(const Program& program, const Pred& wanted, PlanPart& part) {
  part.memory = at_peak(program, largest_device(program), wanted);
  if (part.memory > 0) {
    return;
  }
  std::set<int> devices;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.device != kHost && wanted(buffer)) {
      devices.insert(buffer.device);
    }
  }
  for (const int device : devices) {
    part.memory = std::max(part.memory, at_peak(program, device, wanted));
  }
  part.elsewhere = part.memory > 0;
  part.how += part.elsewhere ? ", on other devices than the largest" : "";
}

std::string plural(int64_t n, const std::string& one) { return format_count(n) + " " + one + (n == 1 ? "" : "s"); }

PlanPart backbone_part(const Plan& plan, const Module& module) {
  const Program& program = plan.training;
  PlanPart part{.name = "backbone"};
  const auto stages = static_cast<int64_t>(program.stages.size());
  const int64_t rows = program.batch / program.replicas;
  part.how = program.replicas > 1 ? plural(program.replicas, "replica") + ", " + plural(rows, "sample") + " each"
                                  : plural(rows, "sample");
  if (stages > 1) {
    const PipelineHint pipeline = program.pipeline();
    const std::string order = pipeline == PipelineHint{PipelineKind::kOneFOneB} ? "1f1b" : to_text(pipeline);
    part.how = plural(stages, "stage") + " (" + order + "), " + part.how;
  }
  if (program.micro_batches > program.replicas) {
    part.how += ", " + format_count(program.micro_batches / program.replicas) + " micro-batches";
  }
  for (size_t p = 0; p < module.graph.params.size(); ++p) {
    const Parameter& parameter = module.graph.params[p];
    const bool counts = parameter.trained && !parameter.head && !module.graph.is_tied_copy(ParamId(p));
    part.parameters += counts ? module.graph.value(parameter.value).type.row_elements() : 0;
  }
  part.time =
      busiest(program, [](const Instruction& i) { return i.kind == Kind::kForward || i.kind == Kind::kBackward; });
  const auto is_backbone = [](const Buffer& b) {
    return b.purpose == Purpose::kWeight || b.purpose == Purpose::kState || b.purpose == Purpose::kOptimizer ||
           b.purpose == Purpose::kResidual || b.purpose == Purpose::kPairs || b.purpose == Purpose::kPrepared ||
           b.purpose == Purpose::kGradient || b.purpose == Purpose::kActivation ||
           (b.purpose == Purpose::kTerms && b.head < 0);
  };
  set_memory(program, is_backbone, part);
  return part;
}

PlanPart head_part(const Plan& plan, const Module& module, size_t index) {
  const Graph& graph = module.graph;
  const HeadPlan& head = plan.training.heads[index];
  const auto own = static_cast<int32_t>(index);  // the index of the head in instructions and buffers
  PlanPart part{.name = "head " + graph.heads[static_cast<size_t>(head.head)].name};
  int64_t classes = 0;
  for (const HeadShard& shard : head.shards) {
    classes = std::max(classes, shard.row_end - shard.row_begin);
  }
  part.how = plural(static_cast<int64_t>(head.shards.size()), "shard") + ", " +
             (head.shards.size() > 1 ? "at most " : "") + format_count(classes) + " classes" +
             (head.active > 0 ? ", " + format_count(head.active) + " of all are active" : "") +
             (head.mapped ? ", rows in a file" : "");
  part.parameters = graph.value(graph.param(head.weight).value).type.row_elements() +
                    (head.bias.valid() ? graph.value(graph.param(head.bias).value).type.row_elements() : 0);
  part.time = busiest(plan.training, [&](const Instruction& i) { return is_of_head(i.kind) && i.head == own; });
  set_memory(
      plan.training, [&](const Buffer& b) { return is_head_buffer(b.purpose) && b.head == own; }, part);
  return part;
}

// Whether an instruction counts as communication. A receive does not count, since its send does.
bool moves_bytes(Kind kind) { return kind == Kind::kCopy || (communicates(kind) && kind != Kind::kRecv); }

}  // namespace

Seconds busiest(const Program& program, const std::function<bool(const Instruction&)>& wanted) {
  std::map<int, Seconds> sums;
  Seconds most = 0;
  for (const Instruction& instruction : program.instructions) {
    if (wanted(instruction)) {
      most = std::max(most, sums[instruction.device] += instruction.predicted);
    }
  }
  return most;
}

std::vector<PlanPart> list_parts(const Plan& plan, const Module& module) {
  const Program& program = plan.training;
  std::vector<PlanPart> parts{backbone_part(plan, module)};
  for (size_t h = 0; h < program.heads.size(); ++h) {
    parts.push_back(head_part(plan, module, h));
  }
  PlanPart other{.name = "other",
                 .how = program.devices > 1 ? "update, copies, scratch, results" : "update, scratch, results"};
  other.time = busiest(program, [](const Instruction& i) { return !is_stage_pass(i.kind) && !is_of_head(i.kind); });
  other.memory = largest_device_of(program);
  Seconds rest = plan.predicted.step;
  for (const PlanPart& part : parts) {
    other.memory -= part.elsewhere ? 0 : part.memory;
    rest -= part.time;
  }
  // Instructions that run while others do add no time to the step.
  other.time = std::min(other.time, std::max(0.0, rest));
  rest -= other.time;
  parts.push_back(std::move(other));
  if (std::abs(rest) > 1e-6 * plan.predicted.step) {
    const bool crowded = plan.machine.threads > plan.machine.parallel_workers();
    const bool is_loader = plan.certificate && plan.certificate->limit == Certificate::Limit::kLoader;
    parts.push_back({.name = rest > 0 ? "waiting" : "overlap",
                     .how = rest < 0  ? "parts that run at the same time on several devices"
                            : crowded ? std::to_string(plan.machine.threads) + " threads share " +
                                            plural(plan.machine.cores, "core")
                            : is_loader                    ? "for samples"
                            : plan.machine.devices == 1    ? "for data"
                            : module.data.bindings.empty() ? "for other devices"
                                                           : "for data and other devices",
                     .time = rest});
  }
  return parts;
}

std::vector<DeviceSummary> list_devices(const Plan& plan, const Module& module) {
  const Program& program = plan.training;
  std::vector<DeviceSummary> devices;
  for (const Arena& arena : program.arenas) {
    DeviceSummary summary{.device = arena.device, .arena = arena.bytes, .live_max = arena.live_max};
    if (arena.device == kHost) {
      const bool graph = std::ranges::any_of(program.heads, [](const HeadPlan& head) { return head.neighbours > 0; });
      summary.what = graph ? "batches of the loader, graph of nearest classes" : "batches of the loader";
      devices.push_back(std::move(summary));
      continue;
    }
    summary.threads = program.threads.empty() ? plan.machine.threads_of(arena.device)
                                              : program.threads[static_cast<size_t>(arena.device)];
    const auto add = [&](const std::string& text) { summary.what += (summary.what.empty() ? "" : ", ") + text; };
    for (const Stage& stage : program.stages) {
      for (size_t r = 0; r < stage.devices.size(); ++r) {
        if (stage.devices[r] == arena.device) {
          ++summary.stages;
          add("stage " + std::to_string(stage.index) +
              (program.replicas > 1 ? " of replica " + std::to_string(r) : ""));
        }
      }
    }
    for (const HeadPlan& head : program.heads) {
      for (const HeadShard& shard : head.shards) {
        if (shard.device == arena.device && shard.row_end > shard.row_begin) {
          summary.heads.push_back(head.head);
          add(module.graph.heads[static_cast<size_t>(head.head)].name + " " + format_count(shard.row_begin) + ".." +
              format_count(shard.row_end - 1));
        }
      }
    }
    devices.push_back(std::move(summary));
  }
  return devices;
}

std::vector<CommSummary> list_communication(const Plan& plan) {
  const Program& program = plan.training;
  std::vector<CommSummary> list;
  std::map<std::string, size_t> known;
  std::map<int, bool> groups;
  for (const Instruction& instruction : program.instructions) {
    // Only one member of a collective counts.
    if (!moves_bytes(instruction.kind) || (instruction.group >= 0 && !groups.emplace(instruction.group, true).second)) {
      continue;
    }
    const std::string name = name_of(instruction.kind);
    const auto place = known.emplace(name, list.size()).first;
    if (place->second == list.size()) {
      list.push_back({.what = name});
    }
    CommSummary& summary = list[place->second];
    ++summary.count;
    summary.time += instruction.predicted;
    Bytes bytes = instruction.bytes;
    for (const BufferId id : bytes == 0 ? instruction.writes : std::vector<BufferId>()) {
      bytes += program.buffer(id).bytes;
    }
    summary.bytes += bytes;
  }
  return list;
}

std::vector<SizeSummary> list_sizes(const Plan& plan) {
  std::vector<SizeSummary> list;
  const auto add = [&](const Program& program, Seconds step) {
    SizeSummary size{.batch = program.batch, .step = step};
    for (const Arena& arena : program.arenas) {
      size.used += arena.live_max;
    }
    list.push_back(size);
  };
  for (const StepProgram& one : plan.smaller) {
    add(one.program, one.step);
  }
  if (!list.empty()) {
    add(plan.training, plan.predicted.step);
  }
  return list;
}

namespace {

// Returns the time of a run whose batch grows. `added` is the time that builds of graphs add to a step of the last
// size.
Seconds grown_time(const Plan& plan, const TrainSpec& train, Seconds added) {
  const StepSizes sizes(train, plan.samples);
  Seconds sum = 0;
  for (size_t i = 0; i < sizes.all().size(); ++i) {
    const SizedSteps& run = sizes.all()[i];
    const bool is_last = i + 1 == sizes.all().size();
    const int64_t end = is_last ? sizes.steps() : std::min(sizes.all()[i + 1].first_step, sizes.steps());
    const auto smaller = std::ranges::find(plan.smaller, run.units, &StepProgram::units);
    const Seconds step = smaller != plan.smaller.end() ? smaller->step : plan.predicted.step;
    const double part = static_cast<double>(run.units) / static_cast<double>(train.growth->times);
    sum += static_cast<double>(std::max<int64_t>(0, end - run.first_step)) * (step + added * part);
  }
  return sum;
}

}  // namespace

RunTimes run_times(const Plan& plan, const Module& module) {
  RunTimes times;
  const TrainSpec& train = module.train;
  const auto graphs = graph_period(plan, module);
  const Seconds added = graphs ? graphs->added : 0;
  const Seconds step = plan.predicted.step + added;
  if (plan.samples > 0) {
    times.epoch = TrainSpan{1, TrainSpan::kEpochs}.steps(plan.samples, train.batch) * step;
  }
  if (train.duration.amount > 0 && (plan.samples > 0 || train.duration.unit != TrainSpan::kEpochs)) {
    times.run = train.growth ? grown_time(plan, train, added) : train.duration.steps(plan.samples, train.batch) * step;
  }
  return times;
}

Seconds data_time(const Plan& plan, const ProgramTimes& times) {
  return std::max(0.0, plan.predicted.step - times.makespan);
}

ProgramTimes times_of(const Plan& plan) { return times_of(plan.training, plan.machine); }

ProgramTimes times_of(const Program& program, const Machine& machine) {
  auto times = simulate(program, machine);
  XRUN_CHECK(times.ok(), "a plan's program cannot be simulated: " + times.error().message);
  return std::move(times).value();
}

}  // namespace xrun::planner
