// Tests: tests/cuda/wrappers_test.cpp
#include "runtime/device/cuda/driver/stream.h"

namespace xrun::cuda {

namespace {

Result<bool> has_ended(const Context& context, CUresult result, std::string_view symbol) {
  if (result == CUDA_ERROR_NOT_READY) {
    return false;
  }
  XRUN_TRY(context.check(result, symbol, "asking whether its work has ended"));
  return true;
}

}  // namespace

Result<std::unique_ptr<Event>> Event::make(const Context& context, Timing timing) {
  CUevent handle = nullptr;
  const unsigned flags = CU_EVENT_BLOCKING_SYNC | (timing == Timing::kOn ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
  XRUN_TRY(context.check(context.driver().cuEventCreate(&handle, flags), "cuEventCreate", "making an event"));
  return std::unique_ptr<Event>(new Event(context, handle));
}

Event::~Event() {
  if (context_.make_current().ok()) {
    context_.driver().cuEventDestroy_v2(handle_);
  }
}

Status Event::synchronise() const {
  return context_.check(context_.driver().cuEventSynchronize(handle_), "cuEventSynchronize", "waiting for its work");
}

Result<bool> Event::ended() const {
  return has_ended(context_, context_.driver().cuEventQuery(handle_), "cuEventQuery");
}

Result<double> Event::seconds_since(const Event& start) const {
  float milliseconds = 0;
  XRUN_TRY(context_.check(context_.driver().cuEventElapsedTime(&milliseconds, start.handle_, handle_),
                          "cuEventElapsedTime", "measuring its work"));
  return static_cast<double>(milliseconds) * 1e-3;
}

Result<std::unique_ptr<Stream>> Stream::make(const Context& context) {
  CUstream handle = nullptr;
  XRUN_TRY(context.check(context.driver().cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING), "cuStreamCreate",
                         "making a stream"));
  return std::unique_ptr<Stream>(new Stream(context, handle));
}

Stream::~Stream() {
  if (context_.make_current().ok()) {
    context_.driver().cuStreamDestroy_v2(handle_);
  }
}

Status Stream::copy_in(CUdeviceptr to, std::span<const std::byte> from) {
  return context_.check(context_.driver().cuMemcpyHtoDAsync_v2(to, from.data(), from.size(), handle_),
                        "cuMemcpyHtoDAsync_v2", "copying to its memory");
}

Status Stream::copy_out(std::span<std::byte> to, CUdeviceptr from) {
  return context_.check(context_.driver().cuMemcpyDtoHAsync_v2(to.data(), from, to.size(), handle_),
                        "cuMemcpyDtoHAsync_v2", "copying from its memory");
}

Status Stream::copy(CUdeviceptr to, CUdeviceptr from, Bytes bytes) {
  return context_.check(context_.driver().cuMemcpyDtoDAsync_v2(to, from, static_cast<size_t>(bytes), handle_),
                        "cuMemcpyDtoDAsync_v2", "copying in its memory");
}

Status Stream::copy_from_peer(CUdeviceptr to, const Context& from_context, CUdeviceptr from, Bytes bytes) {
  return context_.check(context_.driver().cuMemcpyPeerAsync(to, context_.handle(), from, from_context.handle(),
                                                            static_cast<size_t>(bytes), handle_),
                        "cuMemcpyPeerAsync", "copying from the memory of another GPU");
}

Status Stream::fill(CUdeviceptr to, std::byte value, Bytes bytes) {
  return context_.check(
      context_.driver().cuMemsetD8Async(to, static_cast<unsigned char>(value), static_cast<size_t>(bytes), handle_),
      "cuMemsetD8Async", "filling its memory");
}

Status Stream::call(CUhostFn function, void* user_data) {
  return context_.check(context_.driver().cuLaunchHostFunc(handle_, function, user_data), "cuLaunchHostFunc",
                        "queueing a function of the host");
}

Status Stream::record(const Event& event) {
  return context_.check(context_.driver().cuEventRecord(event.handle(), handle_), "cuEventRecord",
                        "recording an event");
}

Status Stream::wait(const Event& event) {
  return context_.check(context_.driver().cuStreamWaitEvent(handle_, event.handle(), 0), "cuStreamWaitEvent",
                        "waiting for an event");
}

Status Stream::synchronise() const {
  return context_.check(context_.driver().cuStreamSynchronize(handle_), "cuStreamSynchronize", "waiting for its work");
}

Result<bool> Stream::ended() const {
  return has_ended(context_, context_.driver().cuStreamQuery(handle_), "cuStreamQuery");
}

}  // namespace xrun::cuda
