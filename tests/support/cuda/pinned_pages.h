// Page-locked memory of the host, in which pages that a copy still uses are closed for the host.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cuda/access_log.h"
#include "tests/support/cuda/objects.h"

namespace xrun::cuda::fake {

// One allocation, mapped twice: the program has `begin`, whose pages are opened and closed, the driver has the other.
struct PinnedBuffer {
  std::string name;  // "host buffer 1"
  std::byte* begin = nullptr;
  std::byte* own = nullptr;
  size_t bytes = 0;
  size_t mapped = 0;
  std::vector<std::shared_ptr<HostUse>> uses;

  bool contains(const void* address, size_t count) const {
    const auto* const at = static_cast<const std::byte*>(address);
    return at >= begin && static_cast<size_t>(at - begin) + count <= bytes;
  }
  // "host buffer 1 + 64".
  std::string place(const void* address) const;
};

class PinnedPages {
 public:
  ~PinnedPages();
  // Null if the system refuses memory.
  PinnedBuffer* allocate(const std::string& name, size_t bytes);
  void free(PinnedBuffer& buffer);
  // The buffer with all of these bytes; null if there is none.
  PinnedBuffer* find(const void* address, size_t bytes);
  bool empty() const { return buffers_.empty(); }
  PinnedBuffer& first() { return buffers_.front(); }

  // Closes whole pages of the bytes: for all accesses if the copy writes, else for writes. All pages of a buffer are
  // closed if the copy uses the whole buffer.
  void begin_use(PinnedBuffer& buffer, const std::shared_ptr<HostUse>& use);
  // Opens the pages of all copies that happened before `clock`.
  void end_uses(const Clock& clock);
  // Opens the page of an address for an access that was reported. Returns whether it is in a buffer.
  bool open(const void* address);

 private:
  void protect(PinnedBuffer& buffer);

  std::list<PinnedBuffer> buffers_;
};

}  // namespace xrun::cuda::fake
