// The memory of background saves, shared by all saves of a run.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/base/units.h"

namespace xrun::runtime {

// Contains a chunk of kSaveChunk bytes for each thread that may write, and memory for copies of files and single rows.
// Threads: any.
class SaveMemory {
 public:
  // The size of a page for copies of rows. It is small, so that a file with few copies wastes little memory, and large
  // enough for a row of most heads.
  static constexpr Bytes kPage = 64 * kKiB;

  SaveMemory(int chunks, Bytes staging);
  // Takes a chunk, and waits while all chunks are in use.
  std::vector<std::byte> take_chunk();
  void give_back(std::vector<std::byte> chunk);
  // Makes all memory for copies available to a new save. REQUIRES: no memory is in use.
  void reset();
  // Takes memory for the copy of a file; null if there is not enough left.
  std::byte* take(Bytes bytes);
  // Takes a page of kPage bytes, aligned to 64 bytes; null if there is no page left.
  std::byte* take_page();
  void give_back_page(std::byte* page);
  // Whether more than half of the memory for copies is in use.
  bool is_scarce();

 private:
  std::mutex mutex_;  // guards all members below except the bytes of `staging_`
  std::condition_variable given_back_;
  std::vector<std::vector<std::byte>> chunks_;
  Bytes bytes_;
  Bytes taken_ = 0;                       // bytes allocated from the front, by `take`
  Bytes paged_ = 0;                       // bytes allocated from the back, for pages
  std::vector<std::byte*> pages_;         // pages that were given back, for reuse
  std::unique_ptr<std::byte[]> staging_;  // zeroed, so that no step waits for its pages
};

}  // namespace xrun::runtime
