// How the process ends where a library ends it: in words and with exit code 4. What was saved stays whole.
#pragma once

namespace xrun::cli {

// Installs what tells
//   - an exception that nobody can catch, in a thread of a library or before `main`;
//   - `exit` called by a library: libgomp does so when it gets no memory, after words of its own;
//   - a fault inside of hwloc or oneDNN, which do not check what they allocate (dnnl_memory_create,
//     hwloc_topology_load). Faults elsewhere end the process as they always do.
// To be called before libraries start.
void tell_library_faults();

// From now on `exit` is this process's own.
void expect_exit();

}  // namespace xrun::cli
