// Each check lists the processes of this machine and their parents. A process that runs this program is a rank if one
// of its ancestors is a launcher, and that launcher is the watched command or a descendant of it. The launcher and the
// child process through which it started the rank are recorded. While such a child exists, the launcher works. Once all
// of them are gone for `patience`, the launcher is stuck. Ranks that end between two checks are never listed, so the
// ranks' own reports also count: if all ranks have ended, a launcher without children is stuck.
#include "runtime/cluster/stuck_launcher.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>

namespace xrun::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kLaunchers{"mpirun", "mpiexec", "orterun", "prterun"};
// Processes that start ranks on a host: Open MPI has one on each other host, MPICH has one on each host.
constexpr std::array<std::string_view, 3> kDaemons{"orted", "prted", "hydra_pmi_proxy"};
constexpr auto kBetweenLooks = std::chrono::milliseconds(500);

// /proc/PID/stat: "PID (NAME) STATE PARENT ...". NAME may contain any character.
bool read_stat(const fs::path& directory, ProcessEntry& entry) {
  std::ifstream file(directory / "stat");
  std::string text;
  std::getline(file, text, '\0');  // a stream iterator would throw if the process ends meanwhile
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) {
    return false;  // the process has ended
  }
  entry.name = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  char state = 0;
  return static_cast<bool>(rest >> state >> entry.parent) && state != 'Z';
}

// Whether `name` is in the list. If both MPIs are installed, a suffix names the MPI: mpiexec.hydra, mpirun.openmpi.
bool is_one_of(std::span<const std::string_view> names, const std::string& name) {
  return std::ranges::find(names, std::string_view(name).substr(0, name.find('.'))) != names.end();
}

}  // namespace

std::vector<ProcessEntry> list_processes() {
  std::vector<ProcessEntry> processes;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  for (fs::directory_iterator at("/proc", ignored), end; at != end; at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    ProcessEntry entry;
    const auto [last, error] = std::from_chars(name.data(), name.data() + name.size(), entry.pid);
    if (error != std::errc() || last != name.data() + name.size() || !read_stat(at->path(), entry)) {
      continue;
    }
    entry.is_xrun = !program.empty() && fs::read_symlink(at->path() / "exe", ignored) == program;
    processes.push_back(std::move(entry));
  }
  return processes;
}

bool starts_ranks(const std::string& name) { return is_one_of(kLaunchers, name) || is_one_of(kDaemons, name); }

pid_t StuckLauncher::find(const std::vector<ProcessEntry>& processes, Seconds now, bool gone) {
  std::map<pid_t, const ProcessEntry*> by_pid;
  for (const ProcessEntry& one : processes) {
    by_pid[one.pid] = &one;
  }
  for (const ProcessEntry& one : processes) {
    if (one.is_xrun) {
      note_rank(one, by_pid);
    }
  }
  if (!seen_) {
    const pid_t before = std::exchange(launcher_, gone ? childless_launcher(by_pid) : 0);
    had_rank_ = launcher_ == before ? had_rank_ : now;
    had_ranks_ = had_ranks_ || launcher_ != 0;
  }
  // Keeps only the children that still exist. A child may be a script that continues after its rank has ended.
  std::erase_if(children_, [&](const auto& child) {
    const auto at = by_pid.find(child.first);
    return at == by_pid.end() || at->second->parent != child.second;
  });
  had_rank_ = children_.empty() ? had_rank_ : now;
  if (const auto at = by_pid.find(launcher_); at == by_pid.end() || !is_one_of(kLaunchers, at->second->name)) {
    launcher_ = 0;
  }
  return launcher_ != 0 && now - had_rank_ >= patience_ ? launcher_ : 0;
}

// Finds a launcher without children that is the watched command or a descendant of it; 0: there is no such launcher. A
// launcher with a child is not stuck yet, since the child may be a script that continues after its rank.
pid_t StuckLauncher::childless_launcher(const std::map<pid_t, const ProcessEntry*>& by_pid) const {
  for (const auto& [pid, process] : by_pid) {
    if (!is_one_of(kLaunchers, process->name) ||
        std::ranges::any_of(by_pid, [pid](const auto& one) { return one.second->parent == pid; })) {
      continue;
    }
    for (auto at = by_pid.find(pid); at != by_pid.end(); at = by_pid.find(at->second->parent)) {
      if (at->first == command_) {
        return pid;
      }
    }
  }
  return 0;
}

// Records the launcher above a rank, if that launcher is the watched command or a descendant of it.
void StuckLauncher::note_rank(const ProcessEntry& rank, const std::map<pid_t, const ProcessEntry*>& by_pid) {
  pid_t launcher = 0;
  std::optional<std::pair<pid_t, pid_t>> child;  // child of the nearest launcher or daemon, and that process
  pid_t below = rank.pid;
  for (auto at = by_pid.find(rank.parent); at != by_pid.end(); at = by_pid.find(at->second->parent)) {
    const ProcessEntry& process = *at->second;
    const bool launches = is_one_of(kLaunchers, process.name);
    if (!child && starts_ranks(process.name)) {
      child = {below, process.pid};
    }
    launcher = launcher == 0 && launches ? process.pid : launcher;
    if (process.pid == command_) {
      if (launcher != 0) {
        launcher_ = launcher;
        had_ranks_ = true;
        seen_ = true;
        children_.insert(*child);
      }
      return;
    }
    below = process.pid;
  }
}

LauncherWatch::LauncherWatch(pid_t command, std::function<bool()> gone,
                             std::function<void(const ProcessEntry& launcher)> on_stuck)
    : thread_([this, command, gone = std::move(gone), on_stuck = std::move(on_stuck)] {
        StuckLauncher stuck(command);
        while (!ended_.load()) {
          const std::vector<ProcessEntry> processes = list_processes();
          const auto now = std::chrono::steady_clock::now().time_since_epoch();
          const pid_t pid = stuck.find(processes, std::chrono::duration<double>(now).count(), gone());
          had_ranks_.store(stuck.had_ranks());
          if (pid != 0) {
            on_stuck(*std::ranges::find(processes, pid, &ProcessEntry::pid));
            killed_.store(::kill(pid, SIGKILL) == 0);
            return;
          }
          for (auto slept = kBetweenLooks; slept.count() > 0 && !ended_.load();
               slept -= std::chrono::milliseconds(20)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        }
      }) {}

void LauncherWatch::stop() {
  ended_.store(true);
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace xrun::cli
