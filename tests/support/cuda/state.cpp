// Tests: tests/cuda/planted_orders_test.cpp
#include "tests/support/cuda/state.h"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

#include "runtime/device/cuda/driver/driver_errors.h"

namespace xrun::cuda::fake {

namespace {

// Primary contexts are addresses in this array.
std::array<char, 64> contexts;

thread_local int gpu_of_thread = -1;
thread_local uint64_t state_of_thread = 0;  // the state for which the context was made current
thread_local bool host_function = false;

}  // namespace

int current_gpu() { return state_of_thread == State::current().number ? gpu_of_thread : -1; }

void set_current_gpu(int gpu) {
  state_of_thread = State::current().number;
  gpu_of_thread = gpu;
}

bool& in_host_function() { return host_function; }

CUcontext context_of(int gpu) { return reinterpret_cast<CUcontext>(&contexts[static_cast<size_t>(gpu)]); }

int gpu_of(CUcontext context) {
  const auto at = reinterpret_cast<uintptr_t>(context) - reinterpret_cast<uintptr_t>(contexts.data());
  return at < contexts.size() ? static_cast<int>(at) : -1;
}

void State::report(Fault fault) { faults.push_back(std::move(fault)); }

std::string State::place(CUdeviceptr address) const {
  if (const ptx::Buffer* const variable = memory.nearest(address); address >= ptx::kModuleBase && variable != nullptr) {
    return fmt::format("{} + {}", variable->name, address - variable->address);
  }
  const auto after = buffers.upper_bound(address);
  if (after == buffers.begin()) {
    return fmt::format("{:#x}", address);
  }
  const GpuBuffer& buffer = std::prev(after)->second;
  return fmt::format("{} + {}", buffer.name, address - buffer.address);
}

GpuBuffer* State::check_range(const std::string& call, const Stream* stream, CUdeviceptr address, uint64_t bytes) {
  auto after = buffers.upper_bound(address);
  GpuBuffer* const buffer = after == buffers.begin() ? nullptr : &std::prev(after)->second;
  const bool within = buffer != nullptr && address - buffer->address + bytes <= buffer->bytes;
  if (within && buffer->alive) {
    return buffer;
  }
  report({.kind = within ? FaultKind::kUseAfterFree : FaultKind::kOutOfBounds,
          .call = call,
          .stream = stream != nullptr ? stream->name : "",
          .kernel = "",
          .buffer = place(address),
          .cause = within ? "the memory was freed" : fmt::format("no buffer has these {} bytes", bytes)});
  return nullptr;
}

void State::record_access(const std::string& call, const Stream* stream, const std::string& kernel, uint64_t address,
                          uint64_t bytes, bool write, const Accessor& accessor, const Clock& clock) {
  const std::optional<Conflict> conflict = log.record(address, bytes, write, accessor, clock);
  if (!conflict) {
    return;
  }
  PinnedBuffer* const host_buffer = pinned.find(reinterpret_cast<const void*>(conflict->address), 1);
  report({.kind = FaultKind::kUnordered,
          .call = call,
          .stream = stream != nullptr ? stream->name : "",
          .kernel = kernel,
          .buffer = host_buffer != nullptr ? host_buffer->place(reinterpret_cast<const void*>(conflict->address))
                                           : place(conflict->address),
          .cause = fmt::format("nothing orders this {} after the {} of {}", write ? "write" : "read",
                               conflict->other_writes ? "write" : "read", conflict->other.what)});
}

bool State::check_values(const std::string& call, const Stream* stream, CUdeviceptr address, uint64_t bytes) {
  const ptx::Buffer* const buffer = memory.find(address);
  for (uint64_t i = address - buffer->address; i < address - buffer->address + bytes; ++i) {
    if ((buffer->granules[i / ptx::kGranule].valid >> (i % ptx::kGranule) & 1) == 0) {
      report({.kind = FaultKind::kUninitialised,
              .call = call,
              .stream = stream != nullptr ? stream->name : "",
              .kernel = "",
              .buffer = place(buffer->address + i),
              .cause = "the byte has no value"});
      return false;
    }
  }
  return true;
}

void State::release_memory(GpuBuffer& buffer) {
  buffer.alive = false;
  memory.remove(buffer.address);
  log.forget(buffer.address, buffer.bytes);
}

const Operation* State::find_user(const GpuBuffer& buffer, const Stream*& stream) const {
  const auto within = [&](uint64_t address) { return address - buffer.address < buffer.bytes; };
  for (const Stream& one : streams) {
    for (const Operation& operation : one.queue) {
      const auto& arguments = operation.launch.arguments;
      if (within(operation.to) || within(operation.from) || std::ranges::any_of(arguments, within)) {
        stream = &one;
        return &operation;
      }
    }
  }
  return nullptr;
}

Accessor State::host_operation(const std::string& what) {
  return {.actor = 0, .time = host.advance(0), .what = what + " of the host"};
}

void State::join_host_clock(const Clock& clock) {
  host.join(clock);
  pinned.end_uses(host);
}

Call::Call(const char* symbol, Needs needs) : symbol_(symbol), state_(State::current()), lock_(state_.mutex) {
  while (state_.settings.blocks == symbol_) {
    ::pause();
  }
  state_.report_host_accesses();
  if (in_host_function()) {
    result_ = fail(FaultKind::kHostFunction, CUDA_ERROR_NOT_PERMITTED, "a function of the host called the driver");
    return;
  }
  const int number = ++state_.calls[symbol_];
  for (const InjectedError& error : state_.settings.errors) {
    if (error.symbol == symbol_ && error.number == number) {
      result_ = error.result;
      if (is_permanent(result_)) {
        state_.failed = result_;
      }
      return;
    }
  }
  if (needs != Needs::kNothing && !state_.started) {
    result_ = CUDA_ERROR_NOT_INITIALIZED;
  } else if (needs == Needs::kContext && current_gpu() < 0) {
    result_ = fail(FaultKind::kContext, CUDA_ERROR_INVALID_CONTEXT, "no context is current in this thread");
  } else if (needs == Needs::kContext && state_.retained[static_cast<size_t>(current_gpu())] == 0) {
    result_ = fail(FaultKind::kContext, CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was released");
  } else if (needs == Needs::kContext) {
    result_ = state_.failed;
  }
}

int Call::gpu() const { return current_gpu(); }

CUresult Call::fail(FaultKind kind, CUresult result, std::string cause, const std::string& buffer) {
  state_.report(
      {.kind = kind, .call = symbol_, .stream = "", .kernel = "", .buffer = buffer, .cause = std::move(cause)});
  return result;
}

namespace {

template <class Object, class Handle>
Object* find_in(std::deque<Object>& objects, Handle handle) {
  for (Object& object : objects) {
    if (reinterpret_cast<Handle>(&object) == handle) {
      return &object;
    }
  }
  return nullptr;
}

// Checks an object that belongs to a GPU.
template <class Object>
Object* check(Call& call, Object* object, const char* kind) {
  if (object == nullptr) {
    call.fail(FaultKind::kHandle, CUDA_ERROR_INVALID_HANDLE, fmt::format("there is no such {}", kind));
    return nullptr;
  }
  if (!object->alive) {
    call.fail(FaultKind::kHandle, CUDA_ERROR_INVALID_HANDLE, object->name + " was destroyed");
    return nullptr;
  }
  if (object->gpu != call.gpu()) {
    call.fail(FaultKind::kContext, CUDA_ERROR_INVALID_HANDLE,
              fmt::format("{} belongs to GPU {}, and the context of GPU {} is current", object->name, object->gpu,
                          call.gpu()));
    return nullptr;
  }
  return object;
}

}  // namespace

Stream* Call::find(CUstream handle) {
  if (handle == nullptr) {
    fail(FaultKind::kDefaultStream, CUDA_ERROR_INVALID_HANDLE, "the default stream hides missing waits");
    return nullptr;
  }
  return check(*this, find_in(state_.streams, handle), "stream");
}

Event* Call::find(CUevent handle) { return check(*this, find_in(state_.events, handle), "event"); }

LoadedModule* Call::find(CUmodule handle) { return check(*this, find_in(state_.modules, handle), "module"); }

Function* Call::find(CUfunction handle) {
  Function* const function = find_in(state_.functions, handle);
  if (function == nullptr) {
    fail(FaultKind::kHandle, CUDA_ERROR_INVALID_HANDLE, "there is no such kernel");
    return nullptr;
  }
  return check(*this, function->module, "module") != nullptr ? function : nullptr;
}

}  // namespace xrun::cuda::fake
