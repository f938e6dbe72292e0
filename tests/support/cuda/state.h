// The state of the fake driver, and the guard that each of its functions begins with.
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

// Functions need the lock of the state, unless they take it.
class State {
 public:
  explicit State(Settings settings);
  ~State();

  // The state of the FakeDriver that exists. Where there is none, as in a program that has opened the library of the
  // fake driver, it is made with settings from the environment (fake_driver.cpp).
  static State& current();

  // Faults.
  void report(Fault fault);
  // Notes an access of the host to closed memory and opens its page; takes the lock. False for other addresses.
  bool note_host_access(void* address);
  // Reports the accesses of the host that were noted since the last call.
  void report_host_accesses();
  // Describes an address of a GPU: "rows + 64".
  std::string place(CUdeviceptr address) const;

  // Memory. The buffer with all of the bytes; else reports a fault of `call`, and returns null.
  GpuBuffer* check_range(const std::string& call, const Stream* stream, CUdeviceptr address, uint64_t bytes);
  // Reports an access that nothing orders after another one.
  void record_access(const std::string& call, const Stream* stream, const std::string& kernel, uint64_t address,
                     uint64_t bytes, bool write, const Who& who, const Clock& clock);
  // Whether all bytes of a GPU have a value; else reports a fault.
  bool check_values(const std::string& call, const Stream* stream, CUdeviceptr address, uint64_t bytes);
  void release_memory(GpuBuffer& buffer);

  // Work of streams (work.cpp).
  void enqueue(Stream& stream, Operation operation);
  // Runs work until the stream has none. Other streams may run or not.
  void drain(Lock& lock, Stream& stream);
  void drain(Lock& lock, Recording& recording);
  void drain_all(Lock& lock, int gpu);
  // Runs one operation of a stream, chosen by the seed; `wanted` is the stream that is waited for. Returns false if
  // nothing can run.
  bool step(Lock& lock, Stream* wanted);
  // Runs no, one or two operations, so that calls that wait for nothing meet any state of the streams.
  void wander(Lock& lock);
  // The host has waited for work.
  void host_learns(const Clock& clock);
  // Counts an operation of the host.
  Who host_operation(const std::string& what);
  // Memory that work of streams that has not run may access; null if there is none.
  const Operation* find_user(const GpuBuffer& buffer, const Stream*& stream) const;

  mutable std::mutex mutex;
  const uint64_t number;  // number among the states of this process, from 1 on
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
  int host_buffers = 0;     // that were allocated
  uint64_t operations = 0;  // that have run
  uint64_t reserved = 0;    // bytes of addresses that are closed for the host

 private:
  bool runnable(const Stream& stream) const;
  Stream* choose(Stream* wanted);
  void run(Lock& lock, Stream& stream);
  void run_copy(Stream& stream, Operation& operation, const Who& who);
  void run_kernel(Stream& stream, Operation& operation, const Who& who);
  void run_in_background();
  void end_background();

  std::condition_variable changed_;
  std::thread thread_;
  bool ends_ = false;
};

// Begins a function of the driver: takes the lock, and finds out what the call gives without doing anything.
class Call {
 public:
  enum class Needs { kNothing, kDriver, kContext };

  Call(const char* symbol, Needs needs);

  bool refused() const { return result_ != CUDA_SUCCESS; }
  CUresult result() const { return result_; }
  // The result of a call that has waited: the permanent error, or success.
  CUresult done() const { return state_.failed; }

  State& state() { return state_; }
  Lock& lock() { return lock_; }
  const std::string& symbol() const { return symbol_; }
  int gpu() const;  // that of the current context
  // Reports a fault of this call, and gives `result`.
  CUresult fail(FaultKind kind, CUresult result, std::string cause, const std::string& buffer = "");
  // The object of a handle; null after reporting a fault.
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

// The GPU of the context that is current in this thread; -1 without one.
int current_gpu();
void set_current_gpu(int gpu);
// Whether this thread runs a function of the host for the driver.
bool& in_host_function();
// The handle of the primary context of a GPU, and its GPU; -1 for other handles.
CUcontext context_of(int gpu);
int gpu_of(CUcontext context);

}  // namespace xrun::cuda::fake
