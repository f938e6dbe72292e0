// The process that a lock or an unfinished save belongs to, and whether it is known to have ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xrun::runtime {

constexpr size_t kBootDigits = 32;

// Identifies a process: no two processes, even on different hosts, have equal owners.
struct Owner {
  std::string boot;   // boot id of the kernel, 32 hex digits; host names may coincide
  uint64_t pids = 0;  // id of the PID namespace, since each container numbers its own processes
  uint64_t pid = 0;
  uint64_t start = 0;  // start time in clock ticks of the kernel, since process numbers are reused

  bool operator==(const Owner&) const = default;
};

Owner this_process();

// Converts an owner to text and back. The text can be part of a file name:
// "f1980f37ef8347e68fe98f990d81fc8e.4026531836.24017.143264".
std::string to_text(const Owner& owner);
std::optional<Owner> parse_owner(std::string_view text);

// Whether the process is known to have ended. False for a process of another kernel or container, since this process
// cannot check whether it still runs.
bool has_ended(const Owner& owner);

std::string host_name();  // for messages

}  // namespace xrun::runtime
