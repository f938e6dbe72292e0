#include "runtime/device/device.h"

#include <latch>

namespace xrun::runtime {
namespace {

// One call of the body; where its result goes.
struct Call {
  const std::function<Status(int, ops::Workers&)>* body = nullptr;
  Device* device = nullptr;
  std::latch* done = nullptr;
  Status status;
};

void run_call(void* context, int32_t /*argument*/) {
  Call& call = *static_cast<Call*>(context);
  call.status = (*call.body)(call.device->index(), *call.device);
  call.done->count_down();
}

}  // namespace

Status run_on_each(const DeviceSet& devices, int count,
                   const std::function<Status(int device, ops::Workers& workers)>& body) {
  std::latch done(count);
  std::vector<Call> calls(static_cast<size_t>(count));
  for (int d = 0; d < count; ++d) {
    Call& call = calls[static_cast<size_t>(d)];
    call.body = &body;
    call.device = &devices.device(d);
    call.done = &done;
    call.device->submit({&run_call, &call, 0});
  }
  done.wait();
  for (Call& call : calls) {
    XRUN_TRY(std::move(call.status));
  }
  return {};
}

}  // namespace xrun::runtime
