// Finds GPUs in a child process, because a damaged driver may block a call for ever.
#pragma once

#include <chrono>
#include <string>
#include <sys/types.h>

#include "graph/base/units.h"
#include "runtime/device/cuda/machine/gpus.h"

namespace xrun::cuda {

// The text of GPUs that the child sends, and its reading. Lines that have another form are left out.
std::string print_gpus(const Gpus& gpus);
Gpus read_gpus(const std::string& text);

// A child process that detects the GPUs. The destructor ends it. REQUIRES: this process has started no driver.
class GpuProbe {
 public:
  // Starts the child; it opens the driver library.
  explicit GpuProbe(const std::string& library = kDriverLibrary);
  ~GpuProbe();
  GpuProbe(const GpuProbe&) = delete;
  GpuProbe& operator=(const GpuProbe&) = delete;

  // Returns the GPUs that the child has found. Waits until `limit` after its start; if it has not answered by then, or
  // could not be started, there are no GPUs but an error. Call it once.
  Gpus wait(Seconds limit);

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  pid_t pid_ = -1;
  int answer_ = -1;  // the end of a pipe from which the answer is read
};

}  // namespace xrun::cuda
