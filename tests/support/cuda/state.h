// The state of the fake driver, and the guard with which each of its functions begins.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/objects.h"
#include "tests/support/cuda/pinned_pages.h"
#include "tests/support/ptx/memory.h"

namespace xrun::cuda::fake {

using Lock = std::unique_lock<std::mutex>;

// REQUIRES, unless stated otherwise: the caller of a function holds the lock of `mutex`.
class State {
 public:
  explicit State(Settings settings);
  ~State();

  // Returns the state of the FakeDriver that exists. If none exists, as in a program that has opened the library of the
  // fake driver, creates one with settings from the environment (fake_driver.cpp). Needs no lock.
  static State& current();

  // Faults.
  void report(Fault fault);
  // Notes an access of the host to closed memory and opens its page, or returns false. Takes the lock itself.
  bool note_host_access(void* address);
  // Reports the accesses of the host that were noted since the last call.
  void report_host_accesses();
  // Describes an address of a GPU: "rows + 64".
  std::string place(CUdeviceptr address) const;

  // Returns the buffer that contains all of the bytes; otherwise reports a fault of `call` and returns null.
  GpuBuffer* check_range(const std::string& call, const Stream* stream, CUdeviceptr address, uint64_t bytes);
  // Records an access, and reports a fault if nothing orders it after an earlier access.
  void record_access(const std::string& call, const Stream* stream, const std::string& kernel, uint64_t address,
                     uint64_t bytes, bool write, const Accessor& accessor, const Clock& clock);
  // Returns whether all bytes of a GPU have a value; otherwise reports a fault.
  bool check_values(const std::string& call, const Stream* stream, CUdeviceptr address, uint64_t bytes);
  void release_memory(GpuBuffer& buffer);

  // Work of streams (work.cpp).
  void enqueue(Stream& stream, Operation operation);
  // Run work until the stream has no work left, the event is reached, or the GPU has no work left. Work of other
  // streams may also run.
  void drain(Lock& lock, Stream& stream);
  void drain(Lock& lock, Recording& recording);
  void drain_all(Lock& lock, int gpu);
  // Runs one operation of a stream that the seed selects; `wanted` is the stream that the call waits for. Returns false
  // if no operation can run.
  bool step(Lock& lock, Stream* wanted);
  // Runs up to two operations, so that calls that do not wait happen in any state of the streams.
  void run_some(Lock& lock);
  // Joins the clock of work for which the host has waited to that of the host.
  void join_host_clock(const Clock& clock);
  // Counts an operation of the host, and returns it as an accessor of memory.
  Accessor host_operation(const std::string& what);
  // Returns a queued operation that may access the buffer, and its stream; null if no operation may.
  const Operation* find_user(const GpuBuffer& buffer, const Stream*& stream) const;

  mutable std::mutex mutex;
  const uint64_t number;  // number among the states of this process, counted from 1
  const Settings settings;
  std::mt19937_64 random;
  std::vector<Fault> faults;
  std::map<std::string, int> calls;
  bool started = false;
  CUresult failed = CUDA_SUCCESS;  // the permanent error
  std::vector<int> retained;       // index: GPU
  bool staged = false;             // a copy from pageable memory may still run in the default stream
  Clock host;
  AccessLog log;
  ptx::Memory memory;
  std::map<CUdeviceptr, GpuBuffer> buffers;  // key: address; freed ones stay
  PinnedPages pinned;
  std::deque<Stream> streams;
  std::deque<Event> events;
  std::deque<LoadedModule> modules;
  std::deque<Function> functions;
  std::array<void*, 16> noted{};  // addresses that the host accessed
  size_t noted_count = 0;
  int host_buffers = 0;     // number of allocations of page-locked memory
  uint64_t operations = 0;  // number of operations that have run
  uint64_t reserved = 0;    // bytes of addresses that are closed for the host

 private:
  bool runnable(const Stream& stream) const;
  Stream* choose(Stream* wanted);
  void run(Lock& lock, Stream& stream);
  void run_copy(Stream& stream, Operation& operation, const Accessor& accessor);
  void run_kernel(Stream& stream, Operation& operation, const Accessor& accessor);
  void run_in_background();
  void end_background();

  std::condition_variable changed_;
  std::thread thread_;
  bool ends_ = false;
};

// Begins a function of the driver: takes the lock, and checks whether the call is refused.
class Call {
 public:
  enum class Needs { kNothing, kDriver, kContext };

  Call(const char* symbol, Needs needs);

  bool refused() const { return result_ != CUDA_SUCCESS; }
  CUresult result() const { return result_; }
  // Returns the result of a call that has waited: the permanent error, or success.
  CUresult done() const { return state_.failed; }

  State& state() { return state_; }
  Lock& lock() { return lock_; }
  const std::string& symbol() const { return symbol_; }
  int gpu() const;  // the GPU of the current context
  // Reports a fault of this call, and returns `result`.
  CUresult fail(FaultKind kind, CUresult result, std::string cause, const std::string& buffer = "");
  // Return the object of a handle, or report a fault and return null.
  Stream* find(CUstream handle);
  Event* find(CUevent handle);
  LoadedModule* find(CUmodule handle);
  Function* find(CUfunction handle);

 private:
  std::string symbol_;
  State& state_;
  Lock lock_;
  CUresult result_ = CUDA_SUCCESS;
};

// Returns the GPU of the context that is current in this thread; -1 without one.
int current_gpu();
void set_current_gpu(int gpu);
// Whether this thread runs a function of the host for the driver.
bool& in_host_function();
// Return the handle of the primary context of a GPU, and the GPU of a handle; -1 for other handles.
CUcontext context_of(int gpu);
int gpu_of(CUcontext context);

}  // namespace xrun::cuda::fake
