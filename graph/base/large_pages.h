// Memory of many megabytes that is written once, from its start to its end.
#pragma once

#include <cstddef>
#include <vector>

namespace xrun {

// Asks the system for large pages, where it has them on request: a page of 4 KiB costs as much to get as to fill with
// the nodes of a syntax tree. No effect on less than some of them, nor where the system declines.
void prefer_large_pages(void* data, size_t bytes);

// Makes room for `count` elements in such memory.
template <typename T>
void reserve_large(std::vector<T>& vector, size_t count) {
  vector.reserve(count);
  prefer_large_pages(vector.data(), vector.capacity() * sizeof(T));
}

}  // namespace xrun
