// The flags of every command, and the commands on which some of these flags have no effect.
// Tests: tests/runtime/cli/commands/command_test.cpp, tests/cases/command_words_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "graph/base/check.h"
#include "runtime/cli/command_line.h"
#include "runtime/cli/console/device_flag.h"

namespace xrun::cli {
namespace {

constexpr CommandTraits kCommands[] = {
    {.name = "new", .computes = false},
    {.name = "check"},
    {.name = "fmt", .computes = false},
    {.name = "fix"},
    {.name = "explain"},
    {.name = "lsp", .computes = false, .once = false},
    {.name = "plan", .once = false},
    {.name = "simulate"},
    {.name = "show"},
    {.name = "train", .writes_run = true, .once = false},
    {.name = "eval"},
    {.name = "predict"},
    {.name = "export"},
    {.name = "import"},
    {.name = "data", .computes = false},
    {.name = "data preview"},
    {.name = "bench", .once = false},
    {.name = "doctor", .computes = false, .once = false},
    {.name = "completions", .computes = false},
    {.name = "man", .computes = false},
};

// The flags that decide what is computed.
constexpr const char* kDeciding[] = {"--set",     "--run",     "--cluster",       "--schedule",
                                     "--devices", "--threads", "--deterministic", "--cost"};

// The first flag that was typed but has no effect on the command. Empty: no such flag.
std::string idle_flag(const CLI::App& app, const Words& words) {
  const CommandTraits& command = traits_of(command_name(app));
  std::vector<const char*> idle;
  if (!command.writes_run) {
    idle.push_back("-C");
  }
  if (!command.computes) {
    idle.insert(idle.end(), std::begin(kDeciding), std::end(kDeciding));
  }
  for (const char* flag : idle) {
    const CLI::Option& option = *app.get_option(flag);
    if (option.count() > 0 && words.variable(option).empty()) {  // a variable may be set for other commands
      return flag;
    }
  }
  return "";
}

}  // namespace

std::string command_name(const CLI::App& app) {
  const CLI::App* const command = app.get_subcommands()[0];
  if (const auto further = command->get_subcommands(); !further.empty()) {
    const std::string both = command->get_name() + " " + further[0]->get_name();
    if (std::ranges::find(kCommands, both, &CommandTraits::name) != std::end(kCommands)) {
      return both;
    }
  }
  return command->get_name();
}

const CommandTraits& traits_of(std::string_view command) {
  const auto* const found = std::ranges::find(kCommands, command, &CommandTraits::name);
  XRUN_CHECK(found != std::end(kCommands), "every command has traits");
  return *found;
}

void add_global_flags(CLI::App& app, CommandLine& line) {
  GlobalOptions& g = line.global;
  app.set_help_flag("-h,--help", "print help and exit");
  app.set_version_flag("--version", std::string("xrun ") + XRUN_VERSION, "print the version and exit");
  app.option_defaults()->group(kCommonFlags);
  app.add_option("--set", line.sets, "change a setting (`train.lr=0.1`) or an option of the file (`classes=2M`)")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->allow_extra_args(false);  // one value per flag: the next word is the file
  app.add_option("--run", g.run, "the `run` declaration to use")->type_name("NAME");
  app.add_option("--cluster", g.cluster, "take the `cluster` declaration from another file")->type_name("FILE[:NAME]");
  app.add_option("--schedule", g.schedule, "take the `schedule` declaration from another file")
      ->type_name("FILE[:NAME]");
  app.add_option("-C", g.directory, "the directory for the output of a run (`train` only)")->type_name("DIR");
  app.add_option(
         "--format", g.format,
         "form of the results: text (default) or json; for `bench` also md, for `check` also sarif, for `show` and "
         "`simulate` also html and csv, for `show` also perfetto")
      ->check(CLI::IsMember({"text", "json", "md", "sarif", "html", "csv", "perfetto"}));
  app.add_option("--progress", g.progress, "form of the progress report: auto (default), tty, plain, json or none")
      ->check(CLI::IsMember({"auto", "tty", "plain", "json", "none"}));
  app.add_option("--color", g.color, "colours: auto (default), always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_flag("--ascii", g.ascii, "print only ASCII characters");
  app.add_flag("-q,--quiet", g.quiet, "print errors, but no warnings and no notes");
  app.add_flag("-v,--verbose", g.verbose, "print a line on stderr for each part of the work");
  app.add_flag("--deterministic", g.deterministic, "compute the same bits for every plan");
  app.add_option("--threads", g.threads,
                 "number of threads of all devices together, at least one each (default: the number of cores)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--devices", line.devices,
                 "number of CPU devices (default: one per core, at most one per thread), or GPUs: cuda for all, or "
                 "their numbers, as in cuda:0,1")
      ->type_name("DEVICES");
  app.add_option("--cost", g.cost, "times of operators: analytic (default), or measured on this machine")
      ->check(CLI::IsMember({"analytic", "measured"}));
  app.option_defaults()->group("Options");
}

Outcome<void> finish_globals(CommandLine& line, const CLI::App& app, const Words& words) {
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
    line.global.sets.push_back({set.substr(0, equals), set.substr(equals + 1), ""});
  }
  if (line.global.format == "md" && !app.got_subcommand("bench")) {
    return usage_fault(as_given("--format", "md") + ": only `xrun bench` prints Markdown",
                       "ask for text or for JSON: --format json");
  }
  if (line.global.format == "sarif" && !app.got_subcommand("check")) {
    return usage_fault(as_given("--format", "sarif") + ": only `xrun check` prints SARIF",
                       "ask for text or for JSON: --format json");
  }
  const std::string& format = line.global.format;
  const bool is_table = format == "html" || format == "csv";
  if ((is_table || format == "perfetto") && !app.got_subcommand("show") &&
      !(is_table && app.got_subcommand("simulate"))) {
    return usage_fault(as_given("--format", format) + ": only `xrun show` writes this form of a plan",
                       "ask for text or for JSON: --format json");
  }
  if (line.devices.empty()) {
    return {};
  }
  auto devices = parse_device_flag(line.devices);
  if (!devices.ok()) {
    const Error& fault = devices.error();
    return usage_fault(as_given("--devices", line.devices) + " " + fault.message, fault.help);
  }
  const int count = devices->count;
  if (const int threads = line.global.threads; threads > 0 && threads < count && !devices->gpus) {
    return usage_fault(as_given("--threads", std::to_string(threads)) + " has too few threads for " +
                           as_given("--devices", line.devices) + ": each device has at least one",
                       fmt::format("give at least --threads {}, or leave --threads out", count));
  }
  line.global.devices = count;
  line.global.gpus = std::move(devices->gpus);
  return {};
}

}  // namespace xrun::cli
