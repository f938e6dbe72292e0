#include "runtime/cli/planning_flags.h"

#include <cstdint>
#include <limits>

namespace xrun::cli {

void add_plan_flags(CLI::App& command, PlanArgs& args) {
  command.add_option("file", args.file, "model file")->type_name("FILE");
  command
      .add_option("-o,--output", args.output,
                  "the plan file to write (default: the model's name with .xplan, in the working directory)")
      ->type_name("FILE");
  command.add_flag("--dry-run", args.dry_run, "print the plan, but write no file");
  command.add_option("--diff", args.diff, "print the differences from this plan instead")->type_name("PLAN");
  command.add_flag("--exit-code", args.exit_code, "with `--diff`: exit with 10 if the plans differ");
  command
      .add_option("--why", args.why,
                  "print the reasons for one decision instead, and the plans that decide it differently")
      ->type_name("KEY");
  command.add_option("--fit", args.fit, "print how many classes fit on this machine instead")
      ->check(CLI::IsMember({"classes"}));
  command
      .add_option("--layer-times", args.layer_times,
                  "plan by these times of layers (JSON); without a model: cut this profile in PipeDream's format into "
                  "stages")
      ->type_name("FILE");
  command.add_option("--stages", args.stages, "with `--layer-times` and no model: the number of stages")
      ->check(CLI::Range(1, 65536));
}

void add_simulate_flags(CLI::App& command, SimulateArgs& args) {
  command.add_option("file", args.file, "model file; with `--wall` also a plan file")->required()->type_name("FILE");
  command
      .add_option("--sweep", args.sweeps,
                  "plan for each of these values of an option or a setting: nodes=8,16,32, gpu=h100,h200, stages=1..8, "
                  "batch=64..4096*2")
      ->type_name("KEY=VALUES")
      ->take_all()
      ->allow_extra_args(false);  // one key per flag: the next word is the file
  command
      .add_option("--fit", args.fit,
                  "find the largest value of an option or a setting with a plan; `classes`: how many classes fit")
      ->type_name("KEY[=LOW..HIGH]");
  command.add_option("-o,--output", args.output, "the file to write (default: stdout)")->type_name("FILE");
  command.add_flag("--wall", args.wall,
                   "run the plan by the clock: instructions sleep, and links between nodes are token buckets");
  command.add_option("--steps", args.steps, "with `--wall`: the number of steps (default: 5)")
      ->check(CLI::Range(1, 1000));
  command
      .add_option("--noise", args.noise,
                  "with `--wall`: the standard deviation of normal noise on the times of computations, such as 5% "
                  "(default: none)")
      ->type_name("PERCENT");
  command.add_option("--seed", args.seed, "with `--wall`: the seed of the noise (default: 1)")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
  command
      .add_option(
          "--slow", args.slow,
          "with `--wall`: seconds by the clock for a second of the plan (default: 1, or more if the median pass "
          "is shorter than 20 ms)")
      ->type_name("FACTOR");
}

}  // namespace xrun::cli
