// Large pages for memory of many megabytes that is written once, from start to end.
#pragma once

#include <cstddef>
#include <vector>

namespace xrun {

// Asks the system to use large pages for this memory. With pages of 4 KiB, getting a page costs as much as filling it
// with nodes of a syntax tree. The call has no effect on less than two large pages, or if the system declines.
void prefer_large_pages(void* data, size_t bytes);

// Reserves capacity for `count` elements in large pages.
template <typename T>
void reserve_large(std::vector<T>& vector, size_t count) {
  vector.reserve(count);
  prefer_large_pages(vector.data(), vector.capacity() * sizeof(T));
}

}  // namespace xrun
