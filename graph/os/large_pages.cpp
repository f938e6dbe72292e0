#include "graph/os/large_pages.h"

#include <cstdint>
#include <sys/mman.h>

namespace xrun {

void prefer_large_pages(void* data, size_t bytes) {
  constexpr uintptr_t kLargePage = uintptr_t{2} << 20;  // on x86-64
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kLargePage - 1) / kLargePage * kLargePage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kLargePage * kLargePage;
  if (data != nullptr && end > begin + kLargePage) {
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
}

}  // namespace xrun
