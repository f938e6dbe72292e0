// The workers of one device, as kernels that share out their own work see them. The runtime implements it over TBB.
#pragma once

#include <cstdint>
#include <functional>

namespace xrun::ops {

class Workers {
 public:
  virtual ~Workers() = default;
  virtual int count() const = 0;
  // Calls body(item, worker) once for each item in [0, items), in any order, on at most count() workers; returns when
  // all have returned. `worker` < count(), and one worker runs one item at a time.
  virtual void for_each(int64_t items, const std::function<void(int64_t item, int worker)>& body) = 0;
};

// Everything on the calling thread.
class InlineWorkers final : public Workers {
 public:
  int count() const override { return 1; }
  void for_each(int64_t items, const std::function<void(int64_t, int)>& body) override {
    for (int64_t i = 0; i < items; ++i) {
      body(i, 0);
    }
  }
};

}  // namespace xrun::ops
