// The process that a lock or an unfinished save belongs to, and whether it is known to have ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xrun::runtime {

constexpr size_t kBootDigits = 32;

// One process on one run of one kernel: no two are ever equal, on whatever host.
struct Owner {
  std::string boot;   // 32 hex digits that the kernel draws when it starts; names of hosts need not differ
  uint64_t pids = 0;  // the namespace that `pid` is a number of: containers count their processes each by itself
  uint64_t pid = 0;
  uint64_t start = 0;  // in clock ticks of the kernel: numbers of processes are used again

  bool operator==(const Owner&) const = default;
};

Owner this_process();

// "f1980f37ef8347e68fe98f990d81fc8e.4026531836.24017.143264", which may be a part of a file's name, and back.
std::string to_text(const Owner& owner);
std::optional<Owner> parse_owner(std::string_view text);

// False for a process that runs, and for one of another kernel or container, of which nothing can be known here.
bool has_ended(const Owner& owner);

std::string host_name();  // for messages

}  // namespace xrun::runtime
