// Tests: tests/runtime/cli/commands/command_test.cpp, tests/cases/command_words_test.cpp
#include "runtime/cli/cli.h"

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>

#include "ops/jit/compiler.h"
#include "runtime/cli/command_line.h"
#include "runtime/cli/commands/bench.h"
#include "runtime/cli/console/counts.h"
#include "runtime/cli/console/usage.h"
#include "runtime/cli/job/run_command.h"

namespace xrun::cli {
namespace {

constexpr int kUsage = 2;
constexpr int kWorld = 4;
constexpr int kStopped = 75;

// Reads the command line. Returns the exit code if nothing is left to do, as after --help; otherwise nullopt.
Outcome<std::optional<int>> parse(CLI::App& app, CommandLine& line, const Words& words, int argc,
                                  const char* const* argv) {
  XRUN_TRY(check_command(app, words));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help or --version
    return std::optional(app.exit(e));
  } catch (const CLI::ParseError& e) {
    return parse_fault(app, words, e);
  }
  XRUN_TRY(finish_globals(line, app, words));
  if (app.got_subcommand("bench") && line.run_benchmark == nullptr) {
    return become_bench(argv);  // before warnings are printed, since xrun-bench prints them itself
  }
  XRUN_ASSIGN(const auto compiler, ops::choose_jit());
  ops::use_jit(compiler);
  return std::optional<int>();
}

// Runs the command. If a launcher started several processes, only one of them runs it, except for commands whose
// processes work together, or whose answer is about each process.
int run_action(const CommandLine& line, const CLI::App& app, const std::vector<std::string>& words) {
  const std::string command = app.get_subcommands()[0]->get_name();
  return traits_of(command).once ? run_once(line.global, command, words, line.action)
                                 : finish(line.action(), line.global);
}

int parse_and_run(int argc, const char* const* argv, RunBenchmark run_benchmark) {
  CommandLine line;
  line.run_benchmark = run_benchmark;
  const int own = take_command(argc, argv, line.restarts);
  CLI::App app("Trains classifiers with very many classes from one .xgraph file.", "xrun");
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  add_global_flags(app, line);
  add_commands(app, line);
  name_variables(app);
  check_values(app);
  const Words words(own, argv);
  const Outcome<std::optional<int>> parsed = parse(app, line, words, own, argv);
  if (!parsed.ok()) {
    return finish(parsed.error(), line.global);
  }
  if (*parsed) {
    return **parsed;
  }
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
