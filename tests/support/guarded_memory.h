// Memory that only tasks of a device can touch, for guarded_device.h. Each arena is one memfd mapped twice. The mapping
// that instructions get is closed (PROT_NONE) unless a task of a device runs; copies, and the code of the host, use the
// other one.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "graph/base/check.h"
#include "runtime/device/device.h"
#include "tests/support/late_work.h"

namespace xrun::runtime::testing {

// The mappings of a set of devices. All are open while any task of the set runs, because an exchange reads the memory
// of two devices. Threads: any.
class Guard {
 public:
  void add(std::byte* base, size_t bytes) {
    const std::lock_guard lock(mutex_);
    ranges_.insert({base, bytes});
    protect(base, bytes, running_ > 0);
  }
  void remove(std::byte* base, size_t bytes) {
    const std::lock_guard lock(mutex_);
    ranges_.erase({base, bytes});
  }
  // Makes the n-th copy between devices from now on fail, counted from 1.
  void fail_copy(int number) { failing_copy_ = number; }
  Status next_copy() {
    return --failing_copy_ == 0 ? Error{ErrorKind::kWorld, "", "a planned failure of a copy"} : Status();
  }
  // From now on the memory of all devices has an error.
  void lose() { lost_ = true; }
  Status status() const { return lost_ ? Error{ErrorKind::kWorld, "", "a planned loss of the devices"} : Status(); }
  void begin() { count(1); }
  void end() { count(-1); }

 private:
  void count(int change) {
    const std::lock_guard lock(mutex_);
    const bool was_open = running_ > 0;
    running_ += change;
    if (was_open != (running_ > 0)) {
      for (const auto& [base, bytes] : ranges_) {
        protect(base, bytes, running_ > 0);
      }
    }
  }
  static void protect(std::byte* base, size_t bytes, bool open) {
    XRUN_CHECK(mprotect(base, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0,
               "the guard cannot protect memory");
  }

  std::atomic<int> failing_copy_ = 0;
  std::atomic<bool> lost_ = false;
  std::mutex mutex_;
  int running_ = 0;
  std::set<std::pair<std::byte*, size_t>> ranges_;
};

// Zeroed memory that is mapped twice: for kernels, and for copies.
class TwoMappings {
 public:
  TwoMappings(std::shared_ptr<Guard> guard, Bytes bytes)
      : guard_(std::move(guard)), bytes_(bytes), size_(static_cast<size_t>(bytes)) {
    if (bytes == 0) {
      return;
    }
    const int file = memfd_create("guarded", 0);
    XRUN_CHECK(file >= 0 && ftruncate(file, bytes) == 0, "no memory for a guarded device");
    for (std::byte** base : {&kernels_, &copies_}) {
      void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      XRUN_CHECK(mapped != MAP_FAILED, "no mapping for a guarded device");
      *base = static_cast<std::byte*>(mapped);
    }
    close(file);
    guard_->add(kernels_, size_);
  }
  ~TwoMappings() {
    if (bytes_ > 0) {
      guard_->remove(kernels_, size_);
      munmap(kernels_, size_);
      munmap(copies_, size_);
    }
  }
  TwoMappings(const TwoMappings&) = delete;
  TwoMappings& operator=(const TwoMappings&) = delete;

  Bytes bytes() const { return bytes_; }
  std::byte* kernels(Bytes offset) const { return kernels_ + offset; }
  std::byte* copies(Bytes offset) const { return copies_ + offset; }

 private:
  std::shared_ptr<Guard> guard_;
  Bytes bytes_;
  size_t size_;
  std::byte* kernels_ = nullptr;
  std::byte* copies_ = nullptr;
};

// Another thread makes the copies between devices, after the call that begins them has returned.
class GuardedMemory final : public DeviceMemory {
 public:
  GuardedMemory(std::shared_ptr<Guard> guard, Bytes bytes, LateWork& late, int device)
      : guard_(guard), memory_(std::move(guard), bytes), late_(late), device_(device) {}

  Bytes bytes() const override { return memory_.bytes(); }
  void read(Bytes offset, std::span<std::byte> out) const override {
    std::copy_n(memory_.copies(offset), out.size(), out.data());
  }
  void write(Bytes offset, std::span<const std::byte> in) override {
    std::copy_n(in.data(), in.size(), memory_.copies(offset));
  }
  void fill(Bytes offset, Bytes bytes, std::byte value) override { std::fill_n(memory_.copies(offset), bytes, value); }
  void copy_from(const DeviceMemory& from, Bytes from_offset, Bytes offset, Bytes bytes, CopyDone done) override {
    const std::byte* const source = static_cast<const GuardedMemory&>(from).memory_.copies(from_offset);
    late_.add({LateWork::Kind::kCopies, device_}, [=, to = memory_.copies(offset), &guard = *guard_] {
      Status status = guard.next_copy();
      if (status.ok()) {
        std::copy_n(source, bytes, to);
      }
      done.done(done.context, std::move(status));
    });
  }
  Status status() const override { return guard_->status(); }
  std::byte* kernel_address(Bytes offset) const override { return memory_.kernels(offset); }

 private:
  std::shared_ptr<Guard> guard_;
  TwoMappings memory_;
  LateWork& late_;
  int device_;
};

class GuardedArena final : public HostArena {
 public:
  GuardedArena(std::shared_ptr<Guard> guard, Bytes bytes) : memory_(std::move(guard), bytes) {}

  Bytes bytes() const override { return memory_.bytes(); }
  std::byte* at(Bytes offset) const override { return memory_.copies(offset); }
  std::byte* kernel_address(Bytes offset) const override { return memory_.kernels(offset); }

 private:
  TwoMappings memory_;
};

}  // namespace xrun::runtime::testing
