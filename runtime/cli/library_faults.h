// Ends the process with a message and exit code 4 in cases in which a library would abort it. Saved files stay intact.
#pragma once

namespace xrun::cli {

// Installs handlers for
//   - an exception that cannot be caught, in a thread of a library or before `main`;
//   - a call of `exit` by a library: libgomp makes it after its own message when it gets no memory;
//   - a segmentation fault inside hwloc or oneDNN, which do not check their allocations (dnnl_memory_create,
//     hwloc_topology_load). Faults elsewhere end the process as usual.
// Also makes exceptions pass functions of glibc if no memory is left; glibc would abort.
// REQUIRES: called before libraries start.
void report_library_faults();

// Announces that xrun itself will call `exit`, so that the call is not taken for a library's fault.
void expect_exit();

}  // namespace xrun::cli
