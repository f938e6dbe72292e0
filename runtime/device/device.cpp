#include "runtime/device/device.h"

#include <exception>
#include <latch>
#include <utility>
#include <vector>

#include "runtime/device/host_memory.h"

namespace xrun::runtime {
namespace {

class PageableArena final : public HostArena {
 public:
  explicit PageableArena(HostMemory memory) : memory_(std::move(memory)) {}
  Bytes bytes() const override { return memory_.bytes(); }
  std::byte* at(Bytes offset) const override { return memory_.at(offset); }

 private:
  HostMemory memory_;
};

}  // namespace

Result<std::unique_ptr<HostArena>> map_pageable(Bytes bytes) {
  XRUN_ASSIGN(HostMemory memory, HostMemory::map(bytes));
  return std::unique_ptr<HostArena>(std::make_unique<PageableArena>(std::move(memory)));
}

Status run_on_each(const DeviceSet& devices, const std::function<Status(Device& device)>& body) {
  struct Call {
    const std::function<Status(Device&)>* body = nullptr;
    Device* device = nullptr;
    std::latch* done = nullptr;
    Status status;
    std::exception_ptr exception;  // for example out of memory; TBB lets no exception leave a queued task
  };
  std::latch done(devices.count());
  std::vector<Call> calls;
  for (const auto& device : devices.devices()) {
    calls.push_back({&body, device.get(), &done, {}, {}});
  }
  for (Call& one : calls) {
    const auto run = [](void* context, int32_t) {
      Call& call = *static_cast<Call*>(context);
      try {
        call.status = (*call.body)(*call.device);
      } catch (...) {
        call.exception = std::current_exception();
      }
      call.done->count_down();
    };
    try {
      one.device->start(DeviceStream::kCompute, {run, &one, 0});
    } catch (...) {  // waits, since running tasks still use `calls`
      one.exception = std::current_exception();
      done.count_down();
    }
  }
  done.wait();
  for (Call& call : calls) {
    if (call.exception) {
      std::rethrow_exception(call.exception);
    }
    XRUN_TRY(std::move(call.status));
  }
  return {};
}

}  // namespace xrun::runtime
