// Functions of the fake driver for memory and copies.
// Tests: tests/cuda/wrappers_test.cpp, tests/cuda/planted_orders_test.cpp
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "tests/support/cuda/functions.h"
#include "tests/support/cuda/state.h"

namespace xrun::cuda::fake {

namespace {

uint64_t used_bytes(const State& state, int gpu) {
  uint64_t used = 0;
  for (const auto& [address, buffer] : state.buffers) {
    used += buffer.alive && buffer.gpu == gpu ? buffer.bytes : 0;
  }
  return used;
}

// Reports a free of memory that work still uses.
void check_free(Call& call, const std::string& name, uint64_t address, uint64_t bytes) {
  if (const auto later = call.state().log.find_later(address, bytes, call.state().host)) {
    call.fail(FaultKind::kFreedInUse, CUDA_SUCCESS, "the host has not waited for " + later->what, name);
  }
}

// Queues a copy between the host and a GPU.
CUresult copy_with_host(Call& call, CUstream handle, Operation operation) {
  Stream* const stream = call.find(handle);
  if (stream == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  State& state = call.state();
  operation.symbol = call.symbol();
  const bool out = operation.kind == Operation::Kind::kCopyOut;
  if (operation.bytes == 0 || operation.host == nullptr ||
      state.check_range(call.symbol(), stream, out ? operation.from : operation.to, operation.bytes) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (PinnedBuffer* const pages = state.pinned.find(operation.host, operation.bytes); pages != nullptr) {
    operation.use = std::make_shared<HostUse>(HostUse{.begin = operation.host,
                                                      .bytes = operation.bytes,
                                                      .writes = out,
                                                      .actor = stream->actor,
                                                      .time = 0,
                                                      .what = fmt::format("{} in {}", call.symbol(), stream->name)});
    state.pinned.begin_use(*pages, operation.use);
  } else {
    state.report({.kind = FaultKind::kPageable,
                  .call = call.symbol(),
                  .stream = stream->name,
                  .kernel = "",
                  .buffer = state.place(out ? operation.from : operation.to),
                  .cause = fmt::format("{} bytes of the host are not page-locked", operation.bytes)});
    if (!out) {
      operation.staged.assign(operation.host, operation.host + operation.bytes);
    }
  }
  state.enqueue(*stream, std::move(operation));
  return CUDA_SUCCESS;
}

// A copy that the host waits for. No stream orders it.
CUresult copy_now(Call& call, CUdeviceptr gpu_address, std::byte* host_address, size_t bytes, bool out) {
  State& state = call.state();
  if (bytes == 0 || state.check_range(call.symbol(), nullptr, gpu_address, bytes) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  state.run_some(call.lock());
  if (call.done() != CUDA_SUCCESS) {
    return call.done();
  }
  const Accessor accessor = state.host_operation(call.symbol());
  state.record_access(call.symbol(), nullptr, "", gpu_address, bytes, !out, accessor, state.host);
  std::byte* host = host_address;
  if (PinnedBuffer* const pages = state.pinned.find(host_address, bytes); pages != nullptr) {
    state.record_access(call.symbol(), nullptr, "", reinterpret_cast<uint64_t>(host_address), bytes, out, accessor,
                        state.host);
    host = pages->own + (host_address - pages->begin);
  }
  if (out) {
    state.check_values(call.symbol(), nullptr, gpu_address, bytes);
    state.memory.read(gpu_address, {host, bytes});
  } else {
    state.memory.write(gpu_address, {host, bytes});
    state.staged = state.staged || host == host_address;
  }
  return CUDA_SUCCESS;
}

// Queues a copy between memory of GPUs.
CUresult copy_in_gpus(Call& call, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle) {
  Stream* const stream = call.find(handle);
  if (stream == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (bytes == 0 || call.state().check_range(call.symbol(), stream, to, bytes) == nullptr ||
      call.state().check_range(call.symbol(), stream, from, bytes) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Operation operation{.kind = Operation::Kind::kCopy, .symbol = call.symbol()};
  operation.to = to;
  operation.from = from;
  operation.bytes = bytes;
  call.state().enqueue(*stream, std::move(operation));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  Call call("cuMemGetInfo_v2", Call::Needs::kContext);
  if (!call.refused()) {
    *total = call.state().settings.memory;
    *free = *total - call.state().settings.used - used_bytes(call.state(), call.gpu());
  }
  return call.result();
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  Call call("cuMemAlloc_v2", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  State& state = call.state();
  if (bytes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (bytes > state.settings.memory - state.settings.used - used_bytes(state, call.gpu())) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const std::string name = fmt::format("buffer {}", state.buffers.size() + 1);
  *address = state.memory.add(name, bytes);
  state.buffers[*address] = {.name = name, .gpu = call.gpu(), .address = *address, .bytes = bytes, .alive = true};
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  Call call("cuMemFree_v2", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  State& state = call.state();
  const auto found = state.buffers.find(address);
  if (found == state.buffers.end()) {
    return call.fail(FaultKind::kOutOfBounds, CUDA_ERROR_INVALID_VALUE, "no memory begins there", state.place(address));
  }
  GpuBuffer& buffer = found->second;
  if (!buffer.alive) {
    return call.fail(FaultKind::kUseAfterFree, CUDA_ERROR_INVALID_VALUE, "the memory was freed before", buffer.name);
  }
  const Stream* stream = nullptr;
  if (const Operation* const user = state.find_user(buffer, stream); user != nullptr) {
    const std::string what = user->function != nullptr ? "`" + user->function->kernel->name + "`" : user->symbol;
    call.fail(FaultKind::kFreedInUse, CUDA_SUCCESS,
              fmt::format("{} in {} has not run, and may access it", what, stream->name), buffer.name);
  } else {
    check_free(call, buffer.name, address, buffer.bytes);
  }
  state.release_memory(buffer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned /*flags*/) {
  Call call("cuMemHostAlloc", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  State& state = call.state();
  const std::string name = fmt::format("host buffer {}", ++state.host_buffers);
  PinnedBuffer* const buffer = bytes == 0 ? nullptr : state.pinned.allocate(name, bytes);
  if (buffer == nullptr) {
    return bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = buffer->begin;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* address) {
  Call call("cuMemFreeHost", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  State& state = call.state();
  PinnedBuffer* const buffer = state.pinned.find(address, 1);
  if (buffer == nullptr || buffer->begin != address) {
    return call.fail(FaultKind::kUseAfterFree, CUDA_ERROR_INVALID_VALUE, "no page-locked memory begins there");
  }
  if (!buffer->uses.empty()) {
    call.fail(FaultKind::kFreedInUse, CUDA_SUCCESS, "the host has not waited for " + buffer->uses.front()->what,
              buffer->name);
  }
  state.log.forget(reinterpret_cast<uint64_t>(address), buffer->bytes);
  state.pinned.free(*buffer);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  Call call("cuMemcpyHtoD_v2", Call::Needs::kContext);
  return call.refused() ? call.result()
                        : copy_now(call, to, static_cast<std::byte*>(const_cast<void*>(from)), bytes, false);  // NOLINT
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  Call call("cuMemcpyDtoH_v2", Call::Needs::kContext);
  return call.refused() ? call.result() : copy_now(call, from, static_cast<std::byte*>(to), bytes, true);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  Call call("cuMemcpyHtoDAsync_v2", Call::Needs::kContext);
  Operation operation{.kind = Operation::Kind::kCopyIn};
  operation.to = to;
  operation.host = static_cast<std::byte*>(const_cast<void*>(from));  // NOLINT: a copy in only reads it
  operation.bytes = bytes;
  return call.refused() ? call.result() : copy_with_host(call, stream, std::move(operation));
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  Call call("cuMemcpyDtoHAsync_v2", Call::Needs::kContext);
  Operation operation{.kind = Operation::Kind::kCopyOut};
  operation.from = from;
  operation.host = static_cast<std::byte*>(to);
  operation.bytes = bytes;
  return call.refused() ? call.result() : copy_with_host(call, stream, std::move(operation));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  Call call("cuMemcpyDtoDAsync_v2", Call::Needs::kContext);
  return call.refused() ? call.result() : copy_in_gpus(call, to, from, bytes, stream);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream) {
  Call call("cuMemcpyPeerAsync", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  for (const auto& [address, context] : {std::pair(to, to_context), std::pair(from, from_context)}) {
    const GpuBuffer* const buffer = call.state().check_range(call.symbol(), nullptr, address, bytes);
    if (buffer == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (buffer->gpu != gpu_of(context)) {
      return call.fail(FaultKind::kContext, CUDA_ERROR_INVALID_CONTEXT, "the memory is of another GPU", buffer->name);
    }
  }
  return copy_in_gpus(call, to, from, bytes, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream handle) {
  Call call("cuMemsetD8Async", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  Stream* const stream = call.find(handle);
  if (stream == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (count == 0 || call.state().check_range(call.symbol(), stream, to, count) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Operation operation{.kind = Operation::Kind::kFill, .symbol = call.symbol()};
  operation.to = to;
  operation.bytes = count;
  operation.value = static_cast<std::byte>(value);
  call.state().enqueue(*stream, std::move(operation));
  return CUDA_SUCCESS;
}

}  // namespace xrun::cuda::fake
