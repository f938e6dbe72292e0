#include "runtime/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "ops/jit/compiler.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/cli/commands/bench.h"
#include "runtime/cli/commands/bench_flags.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/commands/completions.h"
#include "runtime/cli/commands/man_pages.h"
#include "runtime/cli/commands/new.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/console/counts.h"
#include "runtime/cli/console/flag_table.h"
#include "runtime/cli/console/usage.h"
#include "runtime/cli/job/join_world.h"
#include "runtime/cli/job/restarts.h"

namespace xrun::cli {
namespace {

constexpr int kUsage = 2;
constexpr int kWorld = 4;
constexpr int kStopped = 75;

// The variables that CLI11 fills. CLI11 keeps references to them, so they must live while the command line is parsed.
struct CommandLine {
  GlobalOptions global;
  std::vector<std::string> sets;
  std::string devices;
  NewArgs fresh;
  CheckArgs check;
  FmtArgs fmt;
  FixArgs fix;
  ExplainArgs explain;
  PlanArgs plan;
  ShowArgs show;
  TrainArgs train;
  RestartArgs restarts;
  int64_t steps = -1;
  EvalArgs eval;
  PredictArgs predict;
  CompletionsArgs completions;
  ManArgs man;
  BenchArgs bench;
  RunBenchmark run_benchmark = nullptr;
  std::function<int()> action;
};

constexpr const char* kCommon = "Flags of every command";

void add_global_flags(CLI::App& app, CommandLine& line) {
  GlobalOptions& g = line.global;
  app.option_defaults()->group(kCommon);
  app.add_option("--set", line.sets, "a setting or an option of the file, as the language writes it: train.lr=0.1")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->allow_extra_args(false);  // one value per flag: the next word is the file
  app.add_option("--run", g.run, "the `run` declaration to use");
  app.add_option("--cluster", g.cluster, "take the cluster from another file")->type_name("FILE[:NAME]");
  app.add_option("--schedule", g.schedule, "take the schedule from another file")->type_name("FILE[:NAME]");
  app.add_option("-C", g.directory, "where the output of the run goes")->type_name("DIR");
  app.add_option("--format", g.format, "text or json; of `bench` also md, of `check` also sarif")
      ->check(CLI::IsMember({"text", "json", "md", "sarif"}));
  app.add_option("--progress", g.progress, "auto, tty, plain, json or none")
      ->check(CLI::IsMember({"auto", "tty", "plain", "json", "none"}));
  app.add_option("--color", g.color, "auto, always or never")->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_flag("--ascii", g.ascii, "nothing beyond ASCII");
  app.add_flag("-q,--quiet", g.quiet, "errors only");
  app.add_flag("-v,--verbose", g.verbose, "say more");
  app.add_flag("--deterministic", g.deterministic, "the same bits for every plan");
  app.add_option("--threads", g.threads, "threads of all devices together (default: cores)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--devices", line.devices, "number of CPU devices (default: one per core)");
  app.add_option("--cost", g.cost, "analytic or measured times of operators")
      ->check(CLI::IsMember({"analytic", "measured"}));
  app.option_defaults()->group("Options");
}

// The help about the global flags. CLI11 lists these flags only in the help of the whole program.
std::string common_help(const CLI::App& app) {
  const auto formatter = std::dynamic_pointer_cast<CLI::Formatter>(app.get_formatter());
  const auto common = app.get_options([](const CLI::Option* option) { return option->get_group() == kCommon; });
  const std::string group = formatter == nullptr ? "" : formatter->make_group(kCommon, false, common);
  return group.substr(std::min(group.find_first_not_of('\n'), group.size()));
}

CLI::App* add_command(CLI::App& app, CommandLine& line, const std::string& name, const std::string& about,
                      std::function<int()> action) {
  CLI::App* command = app.add_subcommand(name, about);
  command->fallthrough();
  command->option_defaults()->group("Options");
  command->footer([command] {
    const CLI::App* whole = command;
    while (whole->get_parent() != nullptr) {
      whole = whole->get_parent();
    }
    return common_help(*whole);
  });
  // With this kind of callback, CLI11 checks a command and reads the variables of its flags only if the command is
  // given.
  command->parse_complete_callback([&line, action = std::move(action)] {
    if (action) {  // a command with subcommands has no action of its own
      line.action = action;
    }
  });
  return command;
}

// Sorts the words of [FILE] CKPT [IMAGES...]: if the first word is a checkpoint, there is no FILE. Returns 0 or the
// exit code.
int find_checkpoint(const std::string& command, std::string& file, std::string& checkpoint,
                    std::vector<std::string>* images) {
  if (runtime::is_checkpoint(file)) {
    if (images != nullptr && !checkpoint.empty()) {
      images->insert(images->begin(), checkpoint);
    } else if (!checkpoint.empty()) {
      return usage_fault("`xrun " + command + "`: `" + file + "` is a checkpoint, but `" + checkpoint + "` follows it",
                         "write xrun " + command + " FILE CKPT, or xrun " + command + " CKPT");
    }
    checkpoint = std::exchange(file, "");
  } else if (checkpoint.empty()) {
    return usage_fault("`xrun " + command + "` needs a checkpoint: `" + file + "` is not one, and no other is named",
                       "name a step directory, its parent, or `latest` in it: xrun " + command + " ckpt/NAME");
  }
  return 0;
}

void add_commands(CLI::App& app, CommandLine& line) {
  CLI::App* fresh = add_command(app, line, "new", "make a directory with a model that trains at once",
                                [&line] { return run_new(line.global, line.fresh); });
  fresh->add_option("directory", line.fresh.directory, "the directory to make")->required()->type_name("NAME");
  std::vector<std::string> models;
  for (const Template& one : templates()) {
    models.emplace_back(one.name);
  }
  fresh->add_option("--template", line.fresh.model, "the kind of model (mlp)")->check(CLI::IsMember(models));

  CLI::App* check = add_command(app, line, "check", "find every mistake, and run the file's tests",
                                [&line] { return run_check(line.global, line.check); });
  check->add_option("files", line.check.files, "model files")->required()->type_name("FILE...");
  check->add_flag("--data", line.check.data, "also open the data");
  check->add_flag("--strict", line.check.strict, "warnings are errors");

  CLI::App* fmt = add_command(app, line, "fmt", "write files in canonical layout",
                              [&line] { return run_fmt(line.global, line.fmt); });
  fmt->add_option("files", line.fmt.paths, "model files; of a directory all .xgraph files below it")
      ->type_name("FILE...");
  fmt->add_flag("--check", line.fmt.check, "write nothing, list the files that would change");
  fmt->add_flag("--stdin", line.fmt.std_in, "read stdin, write the result to stdout");

  CLI::App* fix = add_command(app, line, "fix", "apply the edits of messages that are sure",
                              [&line] { return run_fix(line.global, line.fix); });
  fix->add_option("files", line.fix.paths, "model files; of a directory all .xgraph files below it")
      ->required()
      ->type_name("FILE...");

  CLI::App* explain = add_command(app, line, "explain", "say what a code, an operator or a setting means",
                                  [&line] { return run_explain(line.global, line.explain); });
  explain
      ->add_option("topics", line.explain.topics,
                   "a code, an operator, a setting, or a tensor of a file: XG0301, conv, train.lr, face.xgraph:feature")
      ->type_name("TOPIC...");
  explain->add_flag("--list", line.explain.list, "name all of them");
  explain->add_flag("--unavailable", line.explain.unavailable, "with --list: only what is known and not available yet");

  add_command(app, line, "lsp", "serve an editor on stdin and stdout (Language Server Protocol)",
              [] { return run_lsp(); });

  CLI::App* plan = add_command(app, line, "plan", "search, verify and write the plan",
                               [&line] { return run_plan(line.global, line.plan); });
  plan->add_option("file", line.plan.file, "model file")->required()->type_name("FILE");
  plan->add_option("-o,--output", line.plan.output, "plan file (default: the model's name with .xplan, here)")
      ->type_name("FILE");
  plan->add_flag("--dry-run", line.plan.dry_run, "print the plan, write nothing");
  plan->add_option("--diff", line.plan.diff, "print what differs from this plan instead")->type_name("PLAN");
  plan->add_flag("--exit-code", line.plan.exit_code, "with --diff: exit 10 if the plans differ");
  plan->add_option("--why", line.plan.why, "print the reasons for one decision instead")->type_name("KEY");
  plan->add_option("--fit", line.plan.fit, "print how many classes fit instead, for each choice of the head")
      ->check(CLI::IsMember({"classes"}));

  CLI::App* show = add_command(app, line, "show", "look into a model, a plan, a checkpoint, a log or a run",
                               [&line] { return run_show(line.global, line.show); });
  show->alias("inspect");
  show->add_option("file", line.show.file, "model, plan, checkpoint, log.jsonl or the directory of a run")
      ->required()
      ->type_name("FILE");
  show->add_option("--table", line.show.table, "layers, memory, comm or why")
      ->check(CLI::IsMember({"layers", "memory", "comm", "why"}));
  show->add_option("--emit", line.show.emit, "tokens, ast, checked, module, backward, plan or program")
      ->check(CLI::IsMember({"tokens", "ast", "checked", "module", "backward", "plan", "program"}));
  show->add_option("--depth", line.show.depth, "with --table layers: parts of a path that make a layer")
      ->check(CLI::Range(1, 64));
  show->add_flag("--gantt", line.show.gantt, "the schedule, one row a stage");
  show->add_flag("--explicit", line.show.write_defaults, "the model file with every default written out");

  CLI::App* train = add_command(app, line, "train", "execute a plan", [&line] {
    if (line.restarts.restarts >= 0) {
      return run_restarts(line.global, line.restarts, line.train.file);
    }
    if (line.train.overwrite && line.train.resume != "never") {
      return usage_fault("`--overwrite` is for a run that starts over, but this one continues",
                         "leave it out, or add --resume never");
    }
    if (line.steps >= 0) {
      line.train.steps = line.steps;
    }
    if (line.global.format == "json" && line.global.progress == "auto") {
      line.global.progress = "json";  // a run has no other results than its events
    }
    return run_train(line.global, line.train);
  });
  train->add_option("file", line.train.file, "model or plan")->required(!line.restarts.asked_for)->type_name("FILE");
  train
      ->add_option("--restarts", line.restarts.restarts,
                   "start the command after `--` again, at most N times, if it stops early or is killed")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000));
  train->add_option("--resume", line.train.resume, "auto, never or a checkpoint");
  train->add_flag("--overwrite", line.train.overwrite,
                  "with `--resume never`: move a run that is there to NAME.1, and start over");
  train->add_flag("--extend", line.train.extend, "continue with another length and rate than the run had");
  train->add_option("--steps", line.steps, "stop once the run has done this many steps")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  train
      ->add_option(
          "--step-timeout", line.train.step_timeout,
          "with several processes: end the run when a rank hangs in a step, a save or an evaluation for this many "
          "seconds (600; 0: never)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0, 1'000'000));
  train->add_option("--profile", line.train.profile, "after N steps of warm-up, report where the time of a step goes")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));

  CLI::App* eval = add_command(app, line, "eval", "measure a checkpoint", [&line] {
    const int fault = find_checkpoint("eval", line.eval.file, line.eval.checkpoint, nullptr);
    return fault != 0 ? fault : run_eval(line.global, line.eval);
  });
  eval->add_option("file", line.eval.file, "model file; without one: the model that the checkpoint holds")
      ->required()
      ->type_name("[FILE]");
  eval->add_option("checkpoint", line.eval.checkpoint, "a step directory, its parent, or `latest`")->type_name("CKPT");
  eval->add_flag("--anyway", line.eval.anyway, "also if FILE is another model than that of the checkpoint");
  eval->add_option("--on", line.eval.on, "sources (default: all that `train` names)");
  eval->add_flag("--per-class", line.eval.per_class, "accuracy and precision of each class, the worst first");
  eval->add_option("--confusion", line.eval.confusion, "write the counts of true and predicted classes, as CSV")
      ->type_name("FILE");
  eval->add_option("--wrong", line.eval.wrong, "write the list of misclassified samples to DIR/wrong.tsv")
      ->type_name("DIR");

  CLI::App* predict = add_command(app, line, "predict", "name the classes of pictures", [&line] {
    const int fault = find_checkpoint("predict", line.predict.file, line.predict.checkpoint, &line.predict.images);
    return fault != 0 ? fault : run_predict(line.global, line.predict);
  });
  predict->add_option("file", line.predict.file, "model file; without one: the model that the checkpoint holds")
      ->required()
      ->type_name("[FILE]");
  predict->add_option("checkpoint", line.predict.checkpoint, "a step directory, its parent, or `latest`")
      ->type_name("CKPT");
  predict->add_flag("--anyway", line.predict.anyway, "also if FILE is another model than that of the checkpoint");
  predict->add_option("images", line.predict.images, "pictures, or directories of pictures")->type_name("IMAGES...");
  predict->add_option("--source", line.predict.source, "a source of the file instead of pictures");
  predict->add_option("--rows", line.predict.rows, "its samples a..b")->type_name("A..B");
  predict->add_option("--topk", line.predict.topk, "classes a picture (5)")->check(CLI::Range(1, 1000));
  predict->add_option("--scores", line.predict.scores, "probabilities (default) or logits of the classes")
      ->check(CLI::IsMember({"probabilities", "logits"}));
  predict->add_flag("--embedding", line.predict.embedding, "the model's output instead of classes");
  predict
      ->add_option("-o,--output", line.predict.output,
                   "write embeddings, names and classes to FILE.npy and FILE.tsv, or to FILE.npz")
      ->type_name("FILE");

  CLI::App* bench = add_command(app, line, "bench", kBenchAbout, nullptr);
  bench->require_subcommand(1);
  for (const BenchmarkEntry& entry : benchmarks()) {
    entry.add_flags(
        *add_command(*bench, line, entry.name, entry.about,
                     [&line, name = entry.name] { return line.run_benchmark(line.global, name, line.bench); }),
        line.bench);
  }

  add_command(app, line, "doctor", "report on this machine", [&line] { return run_doctor(line.global); });

  CLI::App* completions = add_command(app, line, "completions", "print a script that completes xrun in a shell",
                                      [&] { return run_completions(read_commands(app), line.completions); });
  completions->add_option("shell", line.completions.shell, "the shell")
      ->required()
      ->type_name("SHELL")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));

  CLI::App* man = add_command(app, line, "man", "print a page of the manual, to be read by `man -l -`",
                              [&] { return run_man(line.global, read_commands(app), line.man); });
  man->add_option("command", line.man.words, "the command (default: xrun itself)")->type_name("[COMMAND...]");
  man->add_option("--write", line.man.directory, "write all pages into this directory instead")->type_name("DIR");
}

// The first flag that was typed but has no effect on the command: it decides what is computed, and the command computes
// nothing, or it is -C, and the command is not `train`. Empty: no such flag.
std::string idle_flag(const CLI::App& app, const Words& words) {
  const std::string command = app.get_subcommands()[0]->get_name();
  std::vector<const char*> idle;
  if (command != "train") {
    idle = {"-C"};
  }
  if (command == "new" || command == "fmt" || command == "doctor" || command == "lsp" || command == "completions" ||
      command == "man") {
    idle.insert(idle.end(),
                {"--set", "--run", "--cluster", "--schedule", "--devices", "--threads", "--deterministic", "--cost"});
  }
  for (const char* flag : idle) {
    const CLI::Option& option = *app.get_option(flag);
    if (option.count() > 0 && words.variable(option).empty()) {  // a variable may be set for other commands
      return flag;
    }
  }
  return "";
}

// Turns `--set a=b` into pairs and `--devices 2` into a number, and checks what CLI11 cannot check. Returns 0 or the
// exit code.
int finish_globals(CommandLine& line, const CLI::App& app, const Words& words) {
  const auto as_given = [&](const std::string& flag, const std::string& value) {
    const std::string variable = words.variable(*app.get_option(flag));
    return variable.empty() ? "`" + flag + " " + value + "`" : "`" + variable + "` in the environment";
  };
  if (const std::string flag = idle_flag(app, words); !flag.empty()) {
    return usage_fault(
        "`" + flag + "` has no effect on `xrun " + app.get_subcommands()[0]->get_name() + "`",
        flag == "-C" ? "leave it out: only `xrun train` writes there, and other commands take paths" : "leave it out");
  }
  for (const std::string& set : line.sets) {
    const size_t equals = set.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return usage_fault(as_given("--set", set) + " has no `=` after a path",
                         "write it as PATH=VALUE: --set train.lr=0.1");
    }
    line.global.sets.emplace_back(set.substr(0, equals), set.substr(equals + 1));
  }
  if (line.global.format == "md" && !app.got_subcommand("bench")) {
    return usage_fault(as_given("--format", "md") + ": only `xrun bench` prints Markdown",
                       "ask for text or for JSON: --format json");
  }
  if (line.global.format == "sarif" && !app.got_subcommand("check")) {
    return usage_fault(as_given("--format", "sarif") + ": only `xrun check` prints SARIF",
                       "ask for text or for JSON: --format json");
  }
  if (line.devices.empty()) {
    return 0;
  }
  if (line.devices.rfind("cuda", 0) == 0) {
    return usage_fault(as_given("--devices", line.devices) + ": GPUs are not yet supported by this build",
                       "give a number of CPU devices: --devices 2");
  }
  const int64_t count = parse_count(line.devices).value_or(0);
  if (count < 1 || count > 1024) {
    return usage_fault(as_given("--devices", line.devices) + " is not a number of devices from 1 to 1024",
                       "give a number of CPU devices: --devices 2");
  }
  line.global.devices = static_cast<int>(count);
  return 0;
}

// Runs the command. If a launcher started several processes, only one of them runs it, except for commands whose
// processes work together, or whose answer is about each process.
int run_action(const CommandLine& line, const CLI::App& app, const std::vector<std::string>& words) {
  const std::string command = app.get_subcommands()[0]->get_name();
  for (const std::string_view for_all : {"train", "plan", "bench", "doctor", "lsp"}) {
    if (command == for_all) {
      return line.action();
    }
  }
  return run_once(line.global, command, words, line.action);
}

int parse_and_run(int argc, const char* const* argv, RunBenchmark run_benchmark) {
  CommandLine line;
  line.run_benchmark = run_benchmark;
  const int own = take_command(argc, argv, line.restarts);
  CLI::App app("Trains classifiers with very many classes from one .xgraph file.", "xrun");
  app.set_version_flag("--version", std::string("xrun ") + XRUN_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  add_global_flags(app, line);
  add_commands(app, line);
  name_variables(app);
  check_values(app);
  const Words words(own, argv);
  if (const int fault = find_unknown_command(app, words); fault != 0) {
    return fault;
  }
  try {
    app.parse(own, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return parse_fault(app, words, e);
  }
  if (const int fault = finish_globals(line, app, words); fault != 0) {
    return fault;
  }
  if (app.got_subcommand("bench") && run_benchmark == nullptr) {
    return become_bench(line.global, argv);  // before warnings, which xrun-bench prints
  }
  const auto compiled = ops::choose_jit();
  if (!compiled.ok()) {
    return Console(line.global).fail(compiled.error());
  }
  ops::use_jit(*compiled);
  if (line.global.format == "text" && !line.global.quiet) {
    warn_of_variables(app);
  }
  const int exit = run_action(line, app, {argv + 1, argv + argc});
  if (exit == kUsage && line.global.format == "text") {
    print_variables(app, words);
  }
  return exit;
}

}  // namespace

int run_command_line(int argc, const char* const* argv, RunBenchmark run_benchmark) {
  // Makes a write beyond the limit of file sizes an error; otherwise the signal would kill the process.
  std::signal(SIGXFSZ, SIG_IGN);
  // Makes a write to a pipe without a reader an error as well. A training run then stops (StopSignals).
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const int exit = parse_and_run(argc, argv, run_benchmark);
    if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && (exit == 0 || exit == kStopped)) {
      std::fprintf(stderr,
                   "error: the results cannot be written to stdout\nhelp: keep what reads them, or free some space "
                   "where they go\n");
      return kWorld;
    }
    return exit;
  } catch (...) {
    return report_exception();
  }
}

int report_exception() noexcept {
  if (std::current_exception() == nullptr) {
    return kWorld;
  }
  try {
    throw;
  } catch (const std::bad_alloc&) {
    std::fputs(
        "error: out of memory\nhelp: `xrun plan` says what a run needs; close other programs or train a smaller "
        "model\n",
        stderr);
  } catch (const std::exception& e) {
    const auto* system = dynamic_cast<const std::system_error*>(&e);
    // TBB names the call that failed only in the text of the error.
    if ((system != nullptr && system->code() == std::errc::resource_unavailable_try_again) ||
        std::string_view(e.what()).find("pthread_create") != std::string_view::npos) {
      std::fputs(
          "error[XG0803]: the system lets this process start no more threads\nhelp: raise its limit (`ulimit -u`, "
          "`ulimit -v`, pids.max of the control group), or plan for fewer: --threads 1\n",
          stderr);
    } else {
      std::fprintf(stderr, "internal error[XG0003]: %s\nhelp: please report this\n", e.what());
    }
  } catch (...) {
    std::fputs("internal error[XG0003]: an exception of no known type\nhelp: please report this\n", stderr);
  }
  return kWorld;
}

}  // namespace xrun::cli
