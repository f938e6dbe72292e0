// The memory that the control groups of Linux leave to this process.
#pragma once

#include <optional>
#include <string>

#include "graph/base/units.h"

namespace xrun::runtime {

struct GroupMemory {
  Bytes limit = 0;
  Bytes free = 0;  // caches of files are free: they give way
};

// The tightest limit and the least free memory of the process's group and of all groups above it: `memory.max` and
// `memory.high` of version 2, `memory.limit_in_bytes` of version 1. None where no group has a limit.
//   root  stands before every path that is read (/proc/self/cgroup, /proc/self/mountinfo, mount points); empty: the
//         system's own
// Errors: none; what cannot be read limits nothing. Threads: any.
// Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst; proc(5), `mountinfo`.
std::optional<GroupMemory> group_memory(const std::string& root = "");

// The number on the line "key number ..." of a file of the system; 0 where there is none.
int64_t number_of(const std::string& path, const std::string& key);

}  // namespace xrun::runtime
