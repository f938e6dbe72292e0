// Runs the command in a loop. Each round starts it as a child process, watches for a launcher that does not end
// (stuck_launcher.h), and waits for its end. The exit code then decides, together with the codes that the ranks of this
// machine have reported (rank_exits.h), since launchers return codes of their own. The command starts again if it was
// not meant to end and its last checkpoint may help; after several early ends in a row, the loop waits longer each
// time. A request to stop is passed on to the child and ends the loop.
#include "runtime/cli/job/restarts.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <thread>
#include <utility>

#include "graph/base/result.h"
#include "graph/os/child_process.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/console/usage.h"
#include "runtime/cluster/stop_signals.h"
#include "runtime/cluster/stuck_launcher.h"

namespace xrun::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Seconds kAtOnce = 30;  // a command that ends sooner counts as an early end, since it has hardly trained
constexpr Seconds kLongestWait = 60;

// Waits for this time. Returns false if a stop was requested.
bool wait_for(Seconds seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end && !StopSignals::requested().load()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return !StopSignals::requested().load();
}

std::string shell_line(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) {
    line += (line.empty() ? "" : " ") + word;
  }
  return line;
}

// The flag, or its variable, that would make every start of the command begin at the same step; empty: no such flag.
std::string begins_each_time(const std::vector<std::string>& command) {
  constexpr std::string_view kFlag = "--resume";
  for (size_t i = 0; i < command.size(); ++i) {
    const std::string& word = command[i];
    const bool apart = word == kFlag && i + 1 < command.size();
    const bool joined = word.starts_with(std::string(kFlag) + "=");
    if ((apart && command[i + 1] != "auto") || (joined && word != "--resume=auto")) {
      return apart ? word + " " + command[i + 1] : word;
    }
    if (apart || joined) {
      return "";  // a flag takes precedence over its variable
    }
  }
  const char* const variable = std::getenv("XRUN_RESUME");
  return variable == nullptr || *variable == 0 || std::string_view(variable) == "auto"
             ? ""
             : "XRUN_RESUME=" + std::string(variable);
}

std::string end_of(int exit_code, Seconds lived) {
  const std::string how = exit_code > kSignalled ? fmt::format("was ended by signal {}", exit_code - kSignalled)
                                                 : fmt::format("ended with exit code {}", exit_code);
  return how + " after " + format_seconds(lived);
}

}  // namespace

int take_command(int argc, const char* const* argv, RestartArgs& args) {
  const char* const* const end = argv + argc;
  const char* const* const dashes = std::find(argv, end, std::string_view("--"));
  const char* const variable = std::getenv("XRUN_RESTARTS");
  args.asked_for = (variable != nullptr && *variable != 0) || std::any_of(argv, dashes, [](std::string_view word) {
                     return word == "--restarts" || word.starts_with("--restarts=");
                   });
  if (!args.asked_for || dashes == end) {
    return argc;
  }
  args.command.assign(dashes + 1, end);
  return static_cast<int>(dashes - argv);
}

bool is_worth_restart(int exit_code) {
  constexpr int kInterrupted = kSignalled + SIGINT;
  constexpr int kTerminated = kSignalled + SIGTERM;
  return exit_code == xrun::exit_code(ErrorKind::kInterrupted) || exit_code == xrun::exit_code(ErrorKind::kWorld) ||
         (exit_code > kSignalled && exit_code != kInterrupted && exit_code != kTerminated);
}

// The command `timeout` ends with 124. MPICH's launcher ends with the bitwise OR of the signals that ended its ranks.
// So 15 may be SIGTERM, or SIGABRT of one rank and SIGKILL of the others, which then report no exit codes. If no rank
// reports anything, the ranks may see other files than this process.
bool misses_host(int exit_code, const RankReports& said, bool before, bool now) {
  constexpr std::array<int, 4> kMeant{0, 124, kSignalled + SIGINT, kSignalled + SIGTERM};
  const bool all_ended = std::ssize(said.exits) >= said.begun;
  const bool meant = std::ranges::find(kMeant, exit_code) != kMeant.end() ||
                     ((exit_code == SIGINT || exit_code == SIGTERM) && all_ended) ||
                     std::ranges::any_of(said.exits, [](int exit) { return !is_worth_restart(exit); });
  return !meant && (now ? said.begun > 0 : before);
}

int exit_of_ranks(int exit_code, const RankReports& said) {
  if (exit_code != 0 || !said.launched) {
    return exit_code;
  }
  return said.exits.empty() ? xrun::exit_code(ErrorKind::kInterrupted) : std::ranges::min(said.exits);
}

Seconds wait_before_restart(int ends_at_once) {
  constexpr int kDoublings = 6;
  return ends_at_once < 2 ? 0 : std::min<Seconds>(kLongestWait, 1 << std::min(ends_at_once - 2, kDoublings));
}

namespace {

// Returns the fault of the command line; nullopt if it has no fault.
std::optional<Failure> find_fault(const RestartArgs& args, const std::string& file) {
  if (!file.empty() || args.command.empty()) {
    return usage_fault("`--restarts` starts the command after `--`, but " +
                           (file.empty() ? "there is no command" : "`" + file + "` is before `--`"),
                       "write xrun train --restarts 5 -- xrun train " + (file.empty() ? "model.xgraph" : file));
  }
  if (const std::string begins = begins_each_time(args.command); !begins.empty()) {
    return usage_fault(
        "`--restarts` starts the command again to continue its run, but with `" + begins +
            "` each start would lose what the one before it has learned",
        "leave `" + begins + "` out; if the run has to begin that way, start it once without --restarts");
  }
  return std::nullopt;
}

// How one start of the command ended.
struct CommandEnd {
  int exit = 0;  // exit_of_ranks
  Seconds lived = 0;
  RankReports said;
  bool has_ranks = false;  // a launcher had ranks on this machine
  bool killed = false;     // the launcher did not end, and was killed
};

// Starts the command, and passes requests to stop on to it.
class Starts {
 public:
  Starts(const Console& console, const std::vector<std::string>& command)
      : console_(console), command_(command), signals_([this] { ask_to_stop(); }) {}

  // Runs the command once.
  Outcome<CommandEnd> run() {
    const auto begin = Clock::now();
    // An `xrun train` after `--` would otherwise also watch over a command.
    if (const int fault = child_.start(command_, {.without = {"XRUN_RESTARTS"}}); fault != 0) {
      return usage_fault(fmt::format("`{}` cannot be started: {}", command_[0], std::strerror(fault)),
                         "check that the command after `--` runs in a shell");
    }
    if (StopSignals::requested().load()) {
      ask_to_stop();  // a signal that came before the command ran has not reached it
    }
    LauncherWatch watch(
        child_.pid(), [this] { return rank_exits_.all_gone(); },
        [this](const ProcessEntry& launcher) {
          console_.note(
              fmt::format("note: {} (process {}) did not end with its ranks, so it waits for a rank or a host that it "
                          "cannot reach; it is killed\n",
                          launcher.name, launcher.pid));
        });
    const int ended_with = child_.wait();
    watch.stop();  // the thread also reads the reports, so it ends first
    RankReports said = rank_exits_.take();
    CommandEnd end{.exit = exit_of_ranks(ended_with, said),
                   .lived = std::chrono::duration<double>(Clock::now() - begin).count(),
                   .has_ranks = watch.had_ranks() || said.launched,
                   .killed = watch.killed()};
    end.said = std::move(said);
    return end;
  }

 private:
  void ask_to_stop() const {
    if (const pid_t pid = child_.pid(); pid > 0) {
      ::kill(pid, SIGUSR1);
    }
  }

  const Console& console_;
  const std::vector<std::string>& command_;
  ChildProcess child_;
  RankExits rank_exits_;
  StopSignals signals_;  // last, since its thread uses `child_`
};

// Returns the exit code if the command must not be started again; nullopt if it may be, as often as --restarts allows.
//   had_ranks  a launcher had ranks in an earlier start
std::optional<int> final_exit(const CommandEnd& end, bool had_ranks) {
  if (StopSignals::requested().load()) {
    // MPICH's launcher ends with 10, or 11, if the signal met ranks that could not handle it yet.
    const bool by_signal = end.exit > kSignalled || end.exit == SIGUSR1 || end.exit == (SIGUSR1 | SIGKILL);
    return by_signal ? exit_code(ErrorKind::kInterrupted) : end.exit;
  }
  if (end.killed && std::ranges::find(end.said.exits, 0) != end.said.exits.end()) {
    return 0;  // the run is complete; only its launcher did not end
  }
  const bool again = is_worth_restart(end.exit) || misses_host(end.exit, end.said, had_ranks, end.has_ranks);
  return again ? std::nullopt : std::optional(end.exit);
}

}  // namespace

Outcome<int> run_restarts(const GlobalOptions& options, const RestartArgs& args, const std::string& file) {
  if (auto fault = find_fault(args, file)) {
    return std::move(*fault);
  }
  const Console console(options);
  Starts starts(console, args.command);
  int ends_at_once = 0;
  bool had_ranks = false;
  for (int restarts = 0;; ++restarts) {
    XRUN_ASSIGN(const CommandEnd end, starts.run());
    if (const std::optional<int> exit = final_exit(end, had_ranks)) {
      return *exit;
    }
    had_ranks = had_ranks || end.has_ranks;
    const std::string ended = fmt::format("`{}` {}", shell_line(args.command), end_of(end.exit, end.lived));
    if (restarts == args.restarts) {
      console.note(fmt::format("note: {}; it is not started again, since --restarts is {}\n", ended, args.restarts));
      return end.exit;
    }
    ends_at_once = end.lived < kAtOnce ? ends_at_once + 1 : 0;
    const Seconds pause = wait_before_restart(ends_at_once);
    console.note(fmt::format("note: {}; it is started again{}, restart {} of {}\n", ended,
                             pause > 0 ? " in " + format_seconds(pause) : "", restarts + 1, args.restarts));
    if (!wait_for(pause)) {
      return exit_code(ErrorKind::kInterrupted);
    }
  }
}

}  // namespace xrun::cli
