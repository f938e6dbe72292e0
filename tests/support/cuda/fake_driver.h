// The fake driver: the functions of CUDA's driver library on a machine without GPU. It executes kernels on the PTX
// machine, runs queued work as late as possible and in any legal order, and reports accesses that nothing orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/cuda/driver/driver_table.h"
#include "tests/support/cuda/fault.h"

namespace xrun::cuda::fake {

class State;

// Makes one call of a function, whose number is counted from 1, return `result` without any effect.
struct InjectedError {
  std::string symbol;  // "cuMemAlloc_v2"
  int number = 1;
  CUresult result = CUDA_SUCCESS;
};

struct Settings {
  int gpus = 1;
  std::vector<std::string> names = {};  // names of the GPUs; those without a name are "xrun fake GPU 90"
  int capability = 90;                  // 80, 90 or 100; with other values, kernels do not run
  uint64_t memory = uint64_t{1} << 30;
  uint64_t used = 0;    // the part of the memory of each GPU that other programs use
  int version = 13000;  // version of CUDA
  uint64_t seed = 1;    // determines the order of work, and the orders of warps
  // Whether a thread of the driver runs work while functions of the host (cuLaunchHostFunc) are queued. The seed does
  // not determine the order then. Without the thread, work runs only in calls that wait for it, ask whether it has
  // ended, or copy synchronously.
  bool background = false;
  std::vector<InjectedError> errors;
  std::string blocks;  // the function whose calls never return, as if the driver were damaged
};

// REQUIRES: no other FakeDriver exists. Threads: any may call the functions of the table.
class FakeDriver {
 public:
  explicit FakeDriver(Settings settings = {});
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const DriverTable& table() const;
  // Returns the faults so far, in the order in which they were found. A correct program has no faults with any seed.
  std::vector<Fault> faults() const;
  // Set the name of memory of a GPU, page-locked memory or a stream in messages.
  void name(CUdeviceptr address, const std::string& name);
  void name(const void* host_address, const std::string& name);
  void name(CUstream stream, const std::string& name);
  // Returns whether an access of the host to memory of a GPU is reported and does not end the process: true without
  // sanitizers, which use these addresses.
  bool finds_host_access() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace xrun::cuda::fake
