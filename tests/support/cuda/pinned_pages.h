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

// One allocation, which is mapped twice: the program uses the mapping at `begin`, whose pages are opened and closed,
// and the driver uses the one at `own`.
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
  // Allocates a buffer. Returns null if the system refuses memory.
  PinnedBuffer* allocate(const std::string& name, size_t bytes);
  void free(PinnedBuffer& buffer);
  // Returns the buffer that contains all of these bytes; null if no buffer does.
  PinnedBuffer* find(const void* address, size_t bytes);
  bool empty() const { return buffers_.empty(); }
  PinnedBuffer& first() { return buffers_.front(); }

  // Closes the pages that a copy covers completely: for all accesses if the copy writes them, else for writes. Closes
  // all pages if the copy uses the whole buffer.
  void begin_use(PinnedBuffer& buffer, const std::shared_ptr<HostUse>& use);
  // Opens the pages of all copies that happened before `clock`.
  void end_uses(const Clock& clock);
  // Opens the page of an address after an access was noted. Returns whether the address is in a buffer.
  bool open(const void* address);

 private:
  void protect(PinnedBuffer& buffer);

  std::list<PinnedBuffer> buffers_;
};

}  // namespace xrun::cuda::fake
