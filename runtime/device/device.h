// A device: workers that run tasks, in an arena of their own. What memory it computes in is the session's business.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "ops/workers.h"

namespace xrun::runtime {

// A call that needs no allocation: what runs, on what, and a number.
struct Task {
  void (*run)(void* context, int32_t argument) = nullptr;
  void* context = nullptr;
  int32_t argument = 0;
};

// Threads: `submit` may be called from anywhere; `for_each` only from a task that runs on this device.
class Device : public ops::Workers {
 public:
  virtual int index() const = 0;
  // Runs the task some time soon on one of the workers. Never blocks.
  virtual void submit(Task task) = 0;
  // Whether a submitted task has not begun.
  virtual bool has_waiting() const = 0;
};

// Devices of one kind that were made together, and what they share (the limit on threads of the process).
class DeviceSet {
 public:
  virtual ~DeviceSet() = default;
  virtual std::span<const std::unique_ptr<Device>> devices() const = 0;
  Device& device(int index) const { return *devices()[static_cast<size_t>(index)]; }
  int count() const { return static_cast<int>(devices().size()); }
};

}  // namespace xrun::runtime
