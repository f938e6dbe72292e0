// Streams of work on a GPU, and the events that order them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/device/cuda/driver/context.h"

namespace xrun::cuda {

enum class Timing : uint8_t { kOff, kOn };

// A point in a stream. Other streams and the host wait for it.
class Event {
 public:
  // An event without timing costs less. A thread that waits for an event sleeps.
  static Result<std::unique_ptr<Event>> make(const Context& context, Timing timing = Timing::kOff);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Waits in the calling thread until the work before the last `Stream::record` has ended; does not wait if no stream
  // has recorded the event. Errors: also those of the work.
  Status synchronise() const;
  // Returns whether that work has ended. Errors: also those of the work.
  Result<bool> ended() const;
  // Returns the seconds from `start` to this event. REQUIRES: both have ended, and were made with timing.
  Result<double> seconds_since(const Event& start) const;

  CUevent handle() const { return handle_; }

 private:
  Event(const Context& context, CUevent handle) : context_(context), handle_(handle) {}

  const Context& context_;
  CUevent handle_;
};

// A queue of work on a GPU. Work runs in the order of the calls that queue it, at any time after them. Only events
// order work of different streams: no stream of xrun waits for CUDA's default stream.
class Stream {
 public:
  static Result<std::unique_ptr<Stream>> make(const Context& context);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Queue copies and a fill. REQUIRES: memory of the host is page-locked (PinnedMemory), and the host does not access
  // it until the copy has ended.
  Status copy_in(CUdeviceptr to, std::span<const std::byte> from);
  Status copy_out(std::span<std::byte> to, CUdeviceptr from);
  Status copy(CUdeviceptr to, CUdeviceptr from, Bytes bytes);
  // Queues a copy from the memory of another GPU to that of this one. REQUIRES: work of other streams that accesses the
  // bytes has ended, or events order it.
  Status copy_from_peer(CUdeviceptr to, const Context& from_context, CUdeviceptr from, Bytes bytes);
  Status fill(CUdeviceptr to, std::byte value, Bytes bytes);
  // Queues a call of a function of the host, which a thread of the driver makes. REQUIRES: the function does not call
  // the driver.
  Status call(CUhostFn function, void* user_data);

  // Records the end of all earlier work of this stream in the event.
  Status record(const Event& event);
  // Makes later work of this stream wait for the last `record` of the event before this call.
  Status wait(const Event& event);
  // Waits in the calling thread until all work of this stream has ended. Errors: also those of the work.
  Status synchronise() const;
  // Returns whether all work of this stream has ended. Errors: also those of the work.
  Result<bool> ended() const;

  const Context& context() const { return context_; }
  CUstream handle() const { return handle_; }

 private:
  Stream(const Context& context, CUstream handle) : context_(context), handle_(handle) {}

  const Context& context_;
  CUstream handle_;
};

}  // namespace xrun::cuda
