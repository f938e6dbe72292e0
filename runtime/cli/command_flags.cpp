// The commands and their own flags.
// Tests: tests/runtime/cli/commands/command_test.cpp, tests/cases/command_words_test.cpp
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/cli/command_line.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/console/counts.h"
#include "runtime/cli/console/flag_table.h"
#include "runtime/cli/planning_flags.h"
#include "runtime/cli/simulate/simulate_command.h"
#include "runtime/cli/weight_flags.h"

namespace xrun::cli {
namespace {

// The help about the global flags. CLI11 lists these flags only in the help of the whole program.
std::string common_help(const CLI::App& app) {
  const auto formatter = std::dynamic_pointer_cast<CLI::Formatter>(app.get_formatter());
  const auto common = app.get_options([](const CLI::Option* option) { return option->get_group() == kCommonFlags; });
  const std::string group = formatter == nullptr ? "" : formatter->make_group(kCommonFlags, false, common);
  return group.substr(std::min(group.find_first_not_of('\n'), group.size()));
}

CLI::App* add_command(CLI::App& app, CommandLine& line, const std::string& name, const std::string& about,
                      std::function<Outcome<int>()> action) {
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

// Sorts the words of [FILE] CKPT [IMAGES...]: if the first word is a checkpoint, there is no FILE.
Outcome<void> find_checkpoint(const std::string& command, std::string& file, std::string& checkpoint,
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
  return {};
}

void add_search_time(CLI::App& command, CommandLine& line) {
  command
      .add_option("--search-time", line.global.search_time,
                  "end the search for a plan after this time, with the best plan so far (5s, 2min)")
      ->type_name("TIME")
      ->check([](const std::string& text) {
        return parse_time(text) ? std::string() : "`" + text + "` is not a time of more than zero, such as 500ms or 5s";
      });
}

// Commands that read and write the texts of models.
void add_text_commands(CLI::App& app, CommandLine& line) {
  CLI::App* fresh = add_command(app, line, "new", "make a directory with a model that trains at once",
                                [&line] { return run_new(line.global, line.fresh); });
  fresh->add_option("directory", line.fresh.directory, "the directory to make")->required()->type_name("NAME");
  std::vector<std::string> models;
  for (const Template& one : templates()) {
    models.emplace_back(one.name);
  }
  fresh->add_option("--template", line.fresh.model, "the kind of model (default: mlp)")->check(CLI::IsMember(models));

  CLI::App* check = add_command(app, line, "check", "find every mistake, and run the file's tests",
                                [&line] { return run_check(line.global, line.check); });
  check->add_option("files", line.check.files, "model files")->required()->type_name("FILE...");
  check->add_flag("--data", line.check.data, "also open the data sources, and decode a sample of each");
  check->add_flag("--strict", line.check.strict, "treat warnings as errors");

  CLI::App* fmt = add_command(app, line, "fmt", "write files in canonical layout",
                              [&line] { return run_fmt(line.global, line.fmt); });
  fmt->add_option("files", line.fmt.paths, "model files; of a directory all .xgraph files below it")
      ->type_name("FILE...");
  fmt->add_flag("--check", line.fmt.check,
                "write nothing, list the files that would change, and exit with 1 if there are any");
  fmt->add_flag("--stdin", line.fmt.std_in, "read the text from stdin and write it to stdout");

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
  explain->add_flag("--list", line.explain.list, "list all topics");
  explain->add_flag("--unavailable", line.explain.unavailable,
                    "with `--list`: only topics that are known but not available yet");

  add_command(app, line, "lsp", "serve an editor on stdin and stdout (Language Server Protocol)",
              [] { return run_lsp(); });
}

void add_plan_and_show(CLI::App& app, CommandLine& line) {
  CLI::App* plan = add_command(app, line, "plan", "search, verify and write the plan",
                               [&line] { return run_plan(line.global, line.plan); });
  add_plan_flags(*plan, line.plan);
  add_search_time(*plan, line);

  CLI::App* simulate = add_command(app, line, "simulate", "plan for other machines, settings and sizes, and compare",
                                   [&line] { return run_simulate(line.global, line.simulate); });
  add_simulate_flags(*simulate, line.simulate);
  add_search_time(*simulate, line);

  CLI::App* show = add_command(app, line, "show", "look into a model, a plan, a checkpoint, a log or a run",
                               [&line] { return run_show(line.global, line.show); });
  show->alias("inspect");
  show->add_option("file", line.show.file, "model, plan, checkpoint, log.jsonl or the directory of a run")
      ->required()
      ->type_name("FILE");
  show->add_option("--table", line.show.table, "print one table: layers, memory, comm or why")
      ->check(CLI::IsMember({"layers", "memory", "comm", "why"}));
  show->add_option(
          "--emit", line.show.emit,
          "print the result of a step of the compilation: tokens, ast, checked, module, backward, plan or program")
      ->check(CLI::IsMember({"tokens", "ast", "checked", "module", "backward", "plan", "program"}));
  show->add_option("--depth", line.show.depth, "with `--table layers`: number of parts of a path that name a layer")
      ->check(CLI::Range(1, 64));
  show->add_flag("--gantt", line.show.gantt, "draw the instructions of a step, one line for each device");
  show->add_option("--diff", line.show.diff, "print what differs from this plan in the plan FILE")->type_name("PLAN");
  show->add_option("--measured", line.show.measured, "lay a run of `--profile` over its plan")->type_name("FILE");
  show->add_flag("--explicit", line.show.write_defaults, "print the model file with every default written out");
}

Outcome<int> start_training(CommandLine& line) {
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
}

void add_train(CLI::App& app, CommandLine& line) {
  CLI::App* train = add_command(app, line, "train", "execute a plan", [&line] { return start_training(line); });
  train->add_option("file", line.train.file, "model or plan")->required(!line.restarts.asked_for)->type_name("FILE");
  train
      ->add_option("--restarts", line.restarts.restarts,
                   "run the command after `--`, and start it again, at most N times, if it stops early or is killed")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000));
  train->add_option(
      "--resume", line.train.resume,
      "auto (default: continue from the latest checkpoint), never (start anew) or a checkpoint to continue from");
  train->add_flag("--overwrite", line.train.overwrite,
                  "with `--resume never`: rename the directory of the earlier run to NAME.1 first");
  train->add_flag("--extend", line.train.extend,
                  "continue although the length, the rate or the number of classes has changed");
  train->add_option("--steps", line.steps, "stop once the run has done N steps, save, and exit with 0")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  train
      ->add_option("--step-timeout", line.train.step_timeout,
                   "with several processes: end the run if a rank hangs for this many seconds (600; 0: never)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0, 1'000'000));
  train
      ->add_option("--profile", line.train.profile,
                   "after N steps of warm-up, measure ten steps and report where their time goes")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  add_search_time(*train, line);
}

void add_eval(CLI::App& app, CommandLine& line) {
  CLI::App* eval = add_command(app, line, "eval", "measure a checkpoint", [&line]() -> Outcome<int> {
    XRUN_TRY(find_checkpoint("eval", line.eval.file, line.eval.checkpoint, nullptr));
    return run_eval(line.global, line.eval);
  });
  eval->add_option("file", line.eval.file, "model file; without one: the model that the checkpoint holds")
      ->required()
      ->type_name("[FILE]");
  eval->add_option("checkpoint", line.eval.checkpoint, "a step directory, its parent, or `latest`")->type_name("CKPT");
  eval->add_flag("--anyway", line.eval.anyway,
                 "evaluate although FILE has another model or preprocessing than the checkpoint");
  eval->add_option("--on", line.eval.on,
                   "the sources to evaluate on (default: those that the metrics of `train` measure), or files of pairs "
                   "(lfw.bin) to verify")
      ->type_name("SOURCE");
  eval->add_option("--feature", line.eval.feature,
                   "the output by which `--on FILE` compares pairs (default: the only one)")
      ->type_name("OUTPUT");
  eval->add_option("--folds", line.eval.folds, "the number of folds of `--on FILE` (10)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}));
  eval->add_flag("--no-flip", line.eval.no_flip, "compare the pictures of `--on FILE` without their mirror images");
  eval->add_option("--roc", line.eval.roc,
                   "also write the ROC curves of `verification`, as points (FILE.json) or as a picture (FILE.svg)")
      ->type_name("FILE");
  eval->add_flag("--per-class", line.eval.per_class,
                 "also print accuracy and precision of each class, the worst first");
  eval->add_option("--confusion", line.eval.confusion, "also write the counts of true and predicted classes, as CSV")
      ->type_name("FILE");
  eval->add_option("--wrong", line.eval.wrong, "also write the list of misclassified samples to DIR/wrong.tsv")
      ->type_name("DIR");
}

void add_predict(CLI::App& app, CommandLine& line) {
  CLI::App* predict = add_command(app, line, "predict", "name the classes of pictures", [&line]() -> Outcome<int> {
    XRUN_TRY(find_checkpoint("predict", line.predict.file, line.predict.checkpoint, &line.predict.images));
    return run_predict(line.global, line.predict);
  });
  predict->add_option("file", line.predict.file, "model file; without one: the model that the checkpoint holds")
      ->required()
      ->type_name("[FILE]");
  predict->add_option("checkpoint", line.predict.checkpoint, "a step directory, its parent, or `latest`")
      ->type_name("CKPT");
  predict->add_flag("--anyway", line.predict.anyway,
                    "predict although FILE has another model or preprocessing than the checkpoint");
  predict->add_option("images", line.predict.images, "pictures, or directories of pictures")->type_name("IMAGES...");
  predict
      ->add_option("--source", line.predict.source, "predict the samples of a source of the file instead of pictures")
      ->type_name("NAME");
  predict->add_option("--rows", line.predict.rows, "predict only the rows a..b of the source or table")
      ->type_name("A..B");
  predict->add_option("--topk", line.predict.topk, "number of classes to print for each sample (5)")
      ->check(CLI::Range(1, 1000));
  predict->add_option("--scores", line.predict.scores, "score of a class: probabilities (default) or logits")
      ->check(CLI::IsMember({"probabilities", "logits"}));
  predict->add_flag("--embedding", line.predict.embedding, "print the model's first output instead of classes");
  predict
      ->add_option("-o,--output", line.predict.output,
                   "with `--embedding`: write outputs, names and classes to FILE.npy and FILE.tsv, or to FILE.npz")
      ->type_name("FILE");
}

// Commands that read and write weights of other programs.
void add_export_and_import(CLI::App& app, CommandLine& line) {
  add_export_flags(
      *add_command(app, line, "export", "write a trained model as ONNX, or its weights as safetensors",
                   [&line]() -> Outcome<int> {
                     XRUN_TRY(find_checkpoint("export", line.exported.file, line.exported.checkpoint, nullptr));
                     return run_export(line.global, line.exported);
                   }),
      line.exported);
  add_import_flags(*add_command(app, line, "import", "make a checkpoint from weights of another program",
                                [&line] { return run_import(line.global, line.imported); }),
                   line.imported);
}

// Commands about files of data, which need no model.
void add_data(CLI::App& app, CommandLine& line) {
  CLI::App* data = add_command(app, line, "data", "look into files of data, and prepare them", nullptr);
  data->require_subcommand(1);

  add_show_flags(*add_command(*data, line, "show", "say what a file of data holds, and what is unusual about it",
                              [&line] { return run_data_show(line.global, line.data_show); }),
                 line.data_show);
  add_index_flags(*add_command(*data, line, "index", "write the indices of tar shards, so that they open fast",
                               [&line] { return run_data_index(line.global, line.data_index); }),
                  line.data_index);
  add_convert_flags(*add_command(*data, line, "convert", "write the pictures of a source in another format",
                                 [&line] { return run_data_convert(line.global, line.convert); }),
                    line.convert);
  add_preview_flags(*add_command(*data, line, "preview", "draw samples as the network gets them, with their labels",
                                 [&line] { return run_data_preview(line.global, line.preview); }),
                    line.preview);
}

void add_bench(CLI::App& app, CommandLine& line) {
  CLI::App* bench = add_command(app, line, "bench", kBenchAbout, nullptr);
  const auto run = [&line](const char* name) {
    return [&line, name] { return Outcome<int>(line.run_benchmark(line.global, name, line.bench)); };
  };
  add_calibration_flags(*bench, line.bench.calibration, [&line, run] { line.action = run(kCalibration); });
  for (const BenchmarkEntry& entry : benchmarks()) {
    entry.add_flags(*add_command(*bench, line, entry.name, entry.about, run(entry.name)), line.bench);
  }
}

// Commands about the program and the machine.
void add_program_commands(CLI::App& app, CommandLine& line) {
  add_command(app, line, "doctor", "report on this machine", [&line] { return run_doctor(line.global); });

  CLI::App* completions = add_command(app, line, "completions", "print a script that completes xrun in a shell",
                                      [&] { return run_completions(read_commands(app), line.completions); });
  completions->add_option("shell", line.completions.shell, "the shell")
      ->required()
      ->type_name("SHELL")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));

  CLI::App* man = add_command(app, line, "man", "print a page of the manual, to be read by `man -l -`",
                              [&] { return run_man(read_commands(app), line.man); });
  man->add_option("command", line.man.words, "the command (default: xrun itself)")->type_name("[COMMAND...]");
  man->add_option("--write", line.man.directory, "write all pages into this directory instead")->type_name("DIR");
}

}  // namespace

// The help lists the commands in this order.
void add_commands(CLI::App& app, CommandLine& line) {
  add_text_commands(app, line);
  add_plan_and_show(app, line);
  add_train(app, line);
  add_eval(app, line);
  add_predict(app, line);
  add_export_and_import(app, line);
  add_data(app, line);
  add_bench(app, line);
  add_program_commands(app, line);
}

}  // namespace xrun::cli
