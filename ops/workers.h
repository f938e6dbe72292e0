// The workers of one device, as seen by kernels that distribute their own work. The runtime implements it over TBB.
#pragma once

#include <cstdint>
#include <type_traits>

namespace xrun::ops {

// The body of for_each: a reference to a callable (item, worker), which must outlive the call. It allocates nothing,
// whatever the callable captures.
class ItemBody {
 public:
  template <typename Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, ItemBody>)
      ItemBody(const Callable& callable)  // NOLINT: implicit by intent
      : callable_(&callable),
        call_([](const void* self, int64_t item, int worker) { (*static_cast<const Callable*>(self))(item, worker); }) {
  }
  void operator()(int64_t item, int worker) const { call_(callable_, item, worker); }

 private:
  const void* callable_;
  void (*call_)(const void* self, int64_t item, int worker);
};

class Workers {
 public:
  virtual ~Workers() = default;
  virtual int count() const = 0;
  // Calls body(item, worker) once for each item in [0, items), in any order, on at most count() workers; returns when
  // all have returned. `worker` < count(), and one worker runs one item at a time.
  virtual void for_each(int64_t items, ItemBody body) = 0;
};

// Runs everything on the calling thread.
class InlineWorkers final : public Workers {
 public:
  int count() const override { return 1; }
  void for_each(int64_t items, ItemBody body) override {
    for (int64_t i = 0; i < items; ++i) {
      body(i, 0);
    }
  }
};

}  // namespace xrun::ops
