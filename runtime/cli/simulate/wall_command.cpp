// Tests: tests/cases/wall_test.cpp
#include "runtime/cli/simulate/wall_command.h"

#include <charconv>
#include <fmt/format.h>
#include <optional>
#include <string_view>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "ops/catalog.h"
#include "planner/cost/simulate.h"
#include "planner/plan_file.h"
#include "runtime/cli/model/plan_flags.h"
#include "runtime/cli/model/planned.h"
#include "runtime/cli/simulate/point_planner.h"
#include "runtime/cli/simulate/wall_report.h"
#include "runtime/cli/simulate/wall_work.h"
#include "runtime/wall/noise.h"
#include "runtime/wall/wall_run.h"

namespace xrun::cli {
namespace {

// Each device is a thread, and the threads wake up on the cores of this machine.
constexpr int kMostWallDevices = 64;
constexpr double kLeastSlow = 1e-3;
constexpr double kMostSlow = 1e6;

std::optional<double> number_of(std::string_view text) {
  double number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Returns the fraction that a text such as "5%" stands for.
std::optional<double> noise_of(const std::string& text) {
  const auto number = text.ends_with('%') ? number_of(std::string_view(text).substr(0, text.size() - 1)) : std::nullopt;
  return number && *number >= 0 && *number <= 100 * runtime::kMostNoise ? std::optional(*number / 100) : std::nullopt;
}

std::optional<double> slow_of(const std::string& text) {
  const auto number = number_of(text);
  return number && *number >= kLeastSlow && *number <= kMostSlow ? number : std::nullopt;
}

// The first flag that is given and has an effect only with `--wall`; empty if there is none.
std::string flag_of_wall(const SimulateArgs& args) {
  return args.steps            ? "--steps"
         : !args.noise.empty() ? "--noise"
         : args.seed           ? "--seed"
         : !args.slow.empty()  ? "--slow"
                               : "";
}

// Returns the plan of a model, or of a plan file.
Outcome<planner::Plan> plan_of(const GlobalOptions& options, const SimulateArgs& args, const Console& console) {
  if (is_plan_file(args.file)) {
    XRUN_TRY(check_plan_flags(args.file, options));
    XRUN_ASSIGN(planner::Plan plan, planner::load_plan(args.file, &ops::registry()));
    return plan;
  }
  return PointPlanner(args.file, options, {}, console).plan_file();
}

// Returns the times of the computations of each device as fractions of the step.
std::vector<WallDevice> predicted_devices(const planner::Program& program, const planner::ProgramTimes& times) {
  std::vector<WallDevice> devices(static_cast<size_t>(program.devices));
  for (const planner::Instruction& one : program.instructions) {
    if (!communicates(one.kind)) {
      const planner::InstructionTime& time = times.instructions[static_cast<size_t>(one.id.index)];
      devices[static_cast<size_t>(one.device)].predicted += (time.end - time.start) / times.makespan;
    }
  }
  return devices;
}

// Returns the time that the simulator predicts for a step whose computations take these multiples of their times.
Result<Seconds> simulated_step(planner::Program program, const planner::Machine& machine,
                               const std::vector<double>& factors) {
  for (planner::Instruction& one : program.instructions) {
    one.predicted *= factors[static_cast<size_t>(one.id.index)];
  }
  XRUN_ASSIGN(const planner::ProgramTimes times, planner::simulate(program, machine));
  return times.makespan;
}

// Runs the steps of the report, and adds their times.
Status run_steps(const planner::Plan& plan, int steps, WallReport& report) {
  const planner::Program& program = plan.training;
  XRUN_ASSIGN(const auto run, runtime::WallRun::start(program, wall_model(program, plan.machine, report.slow)));
  Seconds all = 0;
  for (int step = 0; step < steps; ++step) {
    const std::vector<double> factors =
        runtime::noise_factors(program, static_cast<uint64_t>(report.seed), step, report.noise);
    XRUN_ASSIGN(const Seconds simulated, simulated_step(program, plan.machine, factors));
    XRUN_ASSIGN(const runtime::WallStep measured, run->step(factors));
    report.steps.push_back({.simulated = simulated, .measured = measured.time / report.slow});
    all += measured.time;
    for (size_t d = 0; d < report.devices.size(); ++d) {
      report.devices[d].measured += measured.busy[d];
    }
  }
  for (WallDevice& device : report.devices) {
    device.measured /= all;
  }
  return {};
}

}  // namespace

Status check_wall(const GlobalOptions& options, const SimulateArgs& args) {
  if (!args.wall) {
    const std::string flag = flag_of_wall(args);
    return flag.empty() ? Status()
                        : usage_error("XG0641", {"`{}` has no effect without `--wall`", flag},
                                      "add --wall to run the plan by the clock, or leave the flag out");
  }
  if (!args.sweeps.empty() || !args.fit.empty()) {
    return usage_error("XG0641",
                       {"`--wall` runs one plan, and `{}` makes several", args.fit.empty() ? "--sweep" : "--fit"},
                       "choose a point by --set KEY=VALUE, and run it with --wall");
  }
  if (options.format == "html") {
    return usage_error("XG0641", "`--wall` has no report in the form html", "ask for --format text, csv or json");
  }
  if (!args.noise.empty() && !noise_of(args.noise)) {
    return usage_error("XG0641",
                       {"`--noise {}` is not a percentage from 0% to {:g}%", args.noise, 100 * runtime::kMostNoise},
                       "write a number with a percent sign: --noise 5%");
  }
  if (!args.slow.empty() && !slow_of(args.slow)) {
    return usage_error("XG0641", {"`--slow {}` is not a number from {:g} to {:.0f}", args.slow, kLeastSlow, kMostSlow},
                       "write the seconds by the clock for a second of the plan: --slow 20");
  }
  return {};
}

Outcome<std::string> wall_report(const GlobalOptions& options, const SimulateArgs& args, const Console& console) {
  XRUN_ASSIGN(const planner::Plan plan, plan_of(options, args, console));
  const planner::Program& program = plan.training;
  if (program.devices > kMostWallDevices) {
    return usage_error(
        "XG0641",
        {"the plan has {} devices, and `--wall` runs at most {}, each in a thread", program.devices, kMostWallDevices},
        "run fewer nodes or devices by the clock: --set cluster.nodes=N or --devices N");
  }
  XRUN_ASSIGN(const planner::ProgramTimes times, planner::simulate(program, plan.machine));
  WallReport report{.model = plan.model,
                    .machine = plan.machine.name,
                    .settings = {{"stages", std::to_string(program.stages.size())},
                                 {"replicas", std::to_string(program.replicas)},
                                 {"micro_batches", std::to_string(program.micro_batches)},
                                 {"pipeline", std::string(word_of(program.schedule))}},
                    .instructions = program.instructions.size(),
                    .slow = args.slow.empty() ? slow_enough(program) : *slow_of(args.slow),
                    .noise = args.noise.empty() ? 0 : *noise_of(args.noise),
                    .seed = args.seed.value_or(1),
                    .predicted = times.makespan,
                    .steps = {},
                    .devices = predicted_devices(program, times)};
  const int steps = args.steps.value_or(5);
  console.note(fmt::format("{} by the clock: about {}\n", counted(steps, "step"),
                           format_seconds(steps * report.slow * report.predicted)));
  XRUN_TRY(run_steps(plan, steps, report));
  return options.format == "csv"    ? wall_csv(report)
         : options.format == "json" ? wall_json(report)
                                    : wall_text(report, args.output.empty() ? console.page_columns() : 0);
}

}  // namespace xrun::cli
