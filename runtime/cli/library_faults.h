// Ends the process with exit code 4 and a message where a library would abort it. Saved files stay intact.
#pragma once

namespace xrun::cli {

// Installs handlers for
//   - an exception that cannot be caught, in a thread of a library or before `main`;
//   - a call of `exit` by a library: libgomp makes it after its own message when it gets no memory;
//   - a segmentation fault inside hwloc or oneDNN, which do not check their allocations (dnnl_memory_create,
//     hwloc_topology_load). Faults elsewhere end the process as usual.
// REQUIRES: called before libraries start.
void tell_library_faults();

// Declares that `exit` will be called by xrun itself, so that the call is not a fault.
void expect_exit();

}  // namespace xrun::cli
