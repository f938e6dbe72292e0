// Finds the memory that the control groups of Linux allow this process to use.
#pragma once

#include <optional>
#include <string>

#include "graph/base/units.h"

namespace xrun::runtime {

struct GroupMemory {
  Bytes limit = 0;
  Bytes free = 0;  // includes the page cache, since the kernel frees it when memory is needed
};

// Returns the tightest limit and the least free memory among the process's group and all groups above it; nullopt if no
// group has a limit. Limits are `memory.max` and `memory.high` of version 2, and `memory.limit_in_bytes` of version 1.
//   root  a prefix for every path that is read (/proc/self/cgroup, /proc/self/mountinfo, mount points); empty: the
//         system's own files
// Never fails: a file that cannot be read sets no limit. Threads: any.
// Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst; proc(5), `mountinfo`.
std::optional<GroupMemory> group_memory(const std::string& root = "");

// Returns the number on the line "key number ..." of a system file; 0 if there is no such line.
int64_t number_of(const std::string& path, const std::string& key);

}  // namespace xrun::runtime
