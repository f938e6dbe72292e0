// Functions of the fake driver for streams and events.
// Tests: tests/cuda/wrappers_test.cpp, tests/cuda/planted_orders_test.cpp
#include <fmt/format.h>

#include "tests/support/cuda/functions.h"
#include "tests/support/cuda/state.h"

namespace xrun::cuda::fake {

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  Call call("cuStreamCreate", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  if (flags != CU_STREAM_NON_BLOCKING) {
    return call.fail(FaultKind::kDefaultStream, CUDA_ERROR_INVALID_VALUE,
                     "the stream would synchronise with the default stream, which hides missing waits");
  }
  State& state = call.state();
  const size_t actor = state.streams.size() + 1;
  state.streams.push_back({.name = fmt::format("stream {}", actor), .gpu = call.gpu(), .actor = actor});
  *stream = reinterpret_cast<CUstream>(&state.streams.back());
  return CUDA_SUCCESS;
}

// The work of a destroyed stream still runs.
CUresult cuStreamDestroy_v2(CUstream handle) {
  Call call("cuStreamDestroy_v2", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  Stream* const stream = call.find(handle);
  if (stream == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  stream->alive = false;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  Call call("cuStreamSynchronize", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  if (handle == nullptr) {  // the default stream has only copies from pageable memory
    call.state().staged = false;
    return CUDA_SUCCESS;
  }
  Stream* const stream = call.find(handle);
  if (stream == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  call.state().drain(call.lock(), *stream);
  if (call.done() == CUDA_SUCCESS) {
    call.state().join_host_clock(stream->clock);
  }
  return call.done();
}

CUresult cuStreamQuery(CUstream handle) {
  Call call("cuStreamQuery", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  Stream* const stream = call.find(handle);
  if (stream == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  call.state().step(call.lock(), stream);
  if (call.done() != CUDA_SUCCESS) {
    return call.done();
  }
  if (!stream->queue.empty() || stream->busy) {
    return CUDA_ERROR_NOT_READY;
  }
  call.state().join_host_clock(stream->clock);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent event_handle, unsigned flags) {
  Call call("cuStreamWaitEvent", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  Stream* const stream = call.find(stream_handle);
  Event* const event = stream == nullptr ? nullptr : call.find(event_handle);
  if (event == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (event->recording != nullptr) {  // a wait for an event that was never recorded does nothing
    Operation operation{.kind = Operation::Kind::kWait, .symbol = call.symbol()};
    operation.recording = event->recording;
    call.state().enqueue(*stream, std::move(operation));
  }
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user_data) {
  Call call("cuLaunchHostFunc", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  Stream* const stream = call.find(handle);
  if (stream == nullptr || function == nullptr) {
    return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
  }
  Operation operation{.kind = Operation::Kind::kCall, .symbol = call.symbol()};
  operation.call = function;
  operation.user_data = user_data;
  call.state().enqueue(*stream, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  Call call("cuEventCreate", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  State& state = call.state();
  state.events.push_back({.name = fmt::format("event {}", state.events.size() + 1),
                          .gpu = call.gpu(),
                          .timing = (flags & CU_EVENT_DISABLE_TIMING) == 0});
  *event = reinterpret_cast<CUevent>(&state.events.back());
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  Call call("cuEventDestroy_v2", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  Event* const event = call.find(handle);
  if (event == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  event->alive = false;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event_handle, CUstream stream_handle) {
  Call call("cuEventRecord", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  Stream* const stream = call.find(stream_handle);
  Event* const event = stream == nullptr ? nullptr : call.find(event_handle);
  if (event == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  event->recording = std::make_shared<Recording>();
  event->recording->stream = stream;
  Operation operation{.kind = Operation::Kind::kRecord, .symbol = call.symbol()};
  operation.recording = event->recording;
  call.state().enqueue(*stream, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle) {
  Call call("cuEventQuery", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  Event* const event = call.find(handle);
  if (event == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (event->recording == nullptr) {
    return CUDA_SUCCESS;
  }
  if (!event->recording->ended) {
    call.state().step(call.lock(), event->recording->stream);
  }
  if (call.done() != CUDA_SUCCESS) {
    return call.done();
  }
  if (!event->recording->ended) {
    return CUDA_ERROR_NOT_READY;
  }
  call.state().join_host_clock(event->recording->clock);
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent handle) {
  Call call("cuEventSynchronize", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  Event* const event = call.find(handle);
  if (event == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (event->recording != nullptr) {
    const std::shared_ptr<Recording> recording = event->recording;
    call.state().drain(call.lock(), *recording);
    if (call.done() == CUDA_SUCCESS) {
      call.state().join_host_clock(recording->clock);
    }
  }
  return call.done();
}

// Each operation takes one microsecond.
CUresult cuEventElapsedTime(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  Call call("cuEventElapsedTime", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  Event* const start = call.find(start_handle);
  Event* const end = start == nullptr ? nullptr : call.find(end_handle);
  if (end == nullptr || !start->timing || !end->timing || start->recording == nullptr || end->recording == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!start->recording->ended || !end->recording->ended) {
    return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = 1e-3F * (static_cast<float>(end->recording->at) - static_cast<float>(start->recording->at));
  return CUDA_SUCCESS;
}

}  // namespace xrun::cuda::fake
