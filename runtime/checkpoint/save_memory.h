// The memory of saves in the background, the same for all of a run.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/base/units.h"

namespace xrun::runtime {

// Chunks for threads that write, kSaveChunk each, and memory for copies of files and of single rows. Threads: any.
class SaveMemory {
 public:
  // Of copies of rows: a file with copies of few rows takes little, and rows of most heads fit.
  static constexpr Bytes kPage = 64 * kKiB;

  SaveMemory(int chunks, Bytes staging);
  // Waits while all are in use.
  std::vector<std::byte> take_chunk();
  void give_back(std::vector<std::byte> chunk);
  // A new save may use all memory for copies. REQUIRES: nobody uses any.
  void reset();
  // Null where there is not so much left.
  std::byte* take(Bytes bytes);
  // kPage bytes, aligned to 64; null where there are none left.
  std::byte* take_page();
  void give_back_page(std::byte* page);
  // Whether more than half of the memory for copies is in use.
  bool is_scarce();

 private:
  std::mutex mutex_;  // of all that follows but the bytes of `staging_`
  std::condition_variable given_back_;
  std::vector<std::vector<std::byte>> chunks_;
  Bytes bytes_;
  Bytes taken_ = 0;                       // from the front, by `take`
  Bytes paged_ = 0;                       // from the back, for pages
  std::vector<std::byte*> pages_;         // given back
  std::unique_ptr<std::byte[]> staging_;  // zeroed: no step waits for its pages
};

}  // namespace xrun::runtime
