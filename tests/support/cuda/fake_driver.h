// The fake driver: the functions of CUDA's driver library on a machine without GPU. It executes kernels on the PTX
// machine, runs queued work as late as it can and in any legal order, and reports what nothing orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/cuda/driver_table.h"
#include "tests/support/cuda/fault.h"

namespace xrun::cuda::fake {

class State;

// The call of a function with this number, counted from 1, gives `result` and does nothing.
struct InjectedError {
  std::string symbol;  // "cuMemAlloc_v2"
  int number = 1;
  CUresult result = CUDA_SUCCESS;
};

struct Settings {
  int gpus = 1;
  int capability = 90;  // 80, 90 or 100
  uint64_t memory = uint64_t{1} << 30;
  int version = 13000;  // version of CUDA
  uint64_t seed = 1;    // gives the order of work, and the orders of warps
  // Whether a thread of the driver runs work while functions of the host (cuLaunchHostFunc) wait for their turn. The
  // seed gives no order then. Without it, work runs only while a call waits for it or asks whether it has ended.
  bool background = false;
  std::vector<InjectedError> errors;
};

// REQUIRES: one at a time. Threads: any calls functions of the table.
class FakeDriver {
 public:
  explicit FakeDriver(Settings settings = {});
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const DriverTable& table() const;
  // The faults until now, in the order in which they were found. A program without faults has none in any order.
  std::vector<Fault> faults() const;
  // Gives a name to memory of a GPU, page-locked memory or a stream for messages.
  void name(CUdeviceptr address, const std::string& name);
  void name(const void* host_address, const std::string& name);
  void name(CUstream stream, const std::string& name);
  // Whether an access of the host to memory of a GPU is found, and does not end the process: not with sanitizers, which
  // use these addresses.
  bool finds_host_access() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace xrun::cuda::fake
