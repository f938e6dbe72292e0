#include "runtime/checkpoint/files/owner.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace xrun::runtime {
namespace {

struct ProcessState {
  char state = '?';
  uint64_t start = 0;
};

// Reads the state of a process from /proc/PID/stat: "PID (NAME) STATE ...". Its start time is the 22nd field. NAME may
// contain blanks and brackets, so the fields are counted from the last bracket.
std::optional<ProcessState> state_of(const std::string& process) {
  std::ifstream in("/proc/" + process + "/stat");
  std::string text;
  std::getline(in, text, '\0');  // unlike a stream iterator, this does not throw if reading fails
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) {
    return std::nullopt;
  }
  std::istringstream fields(text.substr(name_end + 1));
  ProcessState found;
  fields >> found.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) {
    fields >> skipped;
  }
  return fields >> found.start ? std::optional(found) : std::nullopt;
}

}  // namespace

Owner this_process() {
  Owner owner{.pid = static_cast<uint64_t>(::getpid())};
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  in >> owner.boot;
  std::erase(owner.boot, '-');
  owner.boot.resize(kBootDigits, '0');
  struct stat info {};
  owner.pids = ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
  const auto state = state_of("self");
  owner.start = state ? state->start : 0;
  return owner;
}

std::string to_text(const Owner& owner) {
  return fmt::format("{}.{}.{}.{}", owner.boot, owner.pids, owner.pid, owner.start);
}

std::optional<Owner> parse_owner(std::string_view text) {
  Owner owner{.boot = std::string(text.substr(0, kBootDigits))};
  if (owner.boot.size() != kBootDigits || owner.boot.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return std::nullopt;
  }
  text.remove_prefix(kBootDigits);
  for (uint64_t* const number : {&owner.pids, &owner.pid, &owner.start}) {
    if (!text.starts_with('.')) {
      return std::nullopt;
    }
    const auto [end, fault] = std::from_chars(text.data() + 1, text.data() + text.size(), *number);
    if (fault != std::errc()) {
      return std::nullopt;
    }
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  return text.empty() ? std::optional(owner) : std::nullopt;
}

bool has_ended(const Owner& owner) {
  const Owner here = this_process();
  if (owner.boot != here.boot || owner.pids != here.pids) {
    return false;
  }
  // Asks with signal 0 first, since /proc may hide the processes of other users.
  if (::kill(static_cast<pid_t>(owner.pid), 0) != 0 && errno == ESRCH) {
    return true;
  }
  const auto state = state_of(std::to_string(owner.pid));
  return state && (state->start != owner.start || state->state == 'Z' || state->state == 'X');
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

}  // namespace xrun::runtime
