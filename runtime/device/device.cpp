#include "runtime/device/device.h"

#include <latch>
#include <vector>

namespace xrun::runtime {

Status run_on_each(const DeviceSet& devices, const std::function<Status(Device& device)>& body) {
  struct Call {
    const std::function<Status(Device&)>* body = nullptr;
    Device* device = nullptr;
    std::latch* done = nullptr;
    Status status;
  };
  std::latch done(devices.count());
  std::vector<Call> calls;
  for (const auto& device : devices.devices()) {
    calls.push_back({&body, device.get(), &done, {}});
  }
  for (Call& one : calls) {
    const auto run = [](void* context, int32_t) {
      Call& call = *static_cast<Call*>(context);
      call.status = (*call.body)(*call.device);
      call.done->count_down();
    };
    one.device->start(DeviceStream::kCompute, {run, &one, 0});
  }
  done.wait();
  for (Call& call : calls) {
    XRUN_TRY(std::move(call.status));
  }
  return {};
}

}  // namespace xrun::runtime
