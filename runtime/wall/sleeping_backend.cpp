// Tests: tests/runtime/wall/wall_run_test.cpp
#include "runtime/wall/sleeping_backend.h"

#include <algorithm>
#include <system_error>

#include "graph/base/errors.h"
#include "runtime/wall/sleep.h"

namespace xrun::runtime {
namespace {

// A computation takes the tokens for this time together. Wake-ups are late by about 0.1 ms.
constexpr Seconds kPart = 1e-3;

}  // namespace

Result<std::unique_ptr<SleepingBackend>> SleepingBackend::start(int devices, std::span<const WallWork> work,
                                                                TokenBuckets& buckets) {
  std::unique_ptr<SleepingBackend> backend(new SleepingBackend(work, buckets));
  try {
    for (int d = 0; d < devices; ++d) {
      Device& device = backend->devices_.emplace_back();
      device.thread = std::thread([&device, self = backend.get()] { self->run_device(device); });
    }
  } catch (const std::system_error&) {
    return world_error("XG0803", {"the system lets no thread start for each of {} devices", devices},
                       "raise its limit (`ulimit -u`, `ulimit -v`, pids.max of the control group)");
  }
  return backend;
}

SleepingBackend::~SleepingBackend() {
  for (Device& device : devices_) {
    if (device.thread.joinable()) {
      {
        const std::lock_guard lock(device.mutex);
        device.stops = true;
      }
      device.changed.notify_one();
      device.thread.join();
    }
  }
}

void SleepingBackend::start(const planner::Instruction& instruction, InstructionEvents& events) {
  Device& device = devices_[static_cast<size_t>(instruction.device)];
  // The notification is inside the lock: after it the step may end, and the backend be destroyed.
  const std::lock_guard lock(device.mutex);
  device.queue.push_back({&instruction, &events, wall_now()});
  device.changed.notify_one();
}

Status SleepingBackend::run(const planner::Instruction& instruction) {
  sleep_through(instruction, wall_now());
  return {};
}

std::optional<SleepingBackend::Queued> SleepingBackend::next(Device& device) {
  std::unique_lock lock(device.mutex);
  device.changed.wait(lock, [&] { return device.stops || !device.queue.empty(); });
  if (device.queue.empty()) {
    return std::nullopt;
  }
  const Queued first = device.queue.front();
  device.queue.pop_front();
  return first;
}

// An instruction that was queued before the end of the one before was reported begins when that one should have ended,
// so that late wake-ups of a busy device do not add up.
void SleepingBackend::run_device(Device& device) {
  wake_up_promptly();
  Seconds due = 0;       // end of the instruction before
  Seconds reported = 0;  // when its end had been reported
  while (const auto queued = next(device)) {
    const Seconds begin = queued->at <= reported ? due : queued->at;
    due = queued->events->begins(*queued->instruction) ? sleep_through(*queued->instruction, begin) : begin;
    queued->events->ended(*queued->instruction, {});
    reported = wall_now();
  }
}

// Returns the time at which the instruction should end.
Seconds SleepingBackend::sleep_through(const planner::Instruction& instruction, Seconds begin) {
  const auto index = static_cast<size_t>(instruction.id.index);
  const WallWork& work = work_[index];
  const Seconds time = work.time * (factors_.empty() ? 1.0 : factors_[index]);
  const Seconds part = work.uses.empty() ? time : kPart;
  Seconds at = begin;
  for (Seconds done = 0; done < time; done += part) {
    const Seconds length = std::min(part, time - done);
    Seconds end = at + length;
    for (const TokenUse& use : work.uses) {
      end = std::max(end, buckets_[use.bucket].take(use.rate * length, at));
    }
    sleep_until(end);
    at = end;
  }
  return at;
}

}  // namespace xrun::runtime
