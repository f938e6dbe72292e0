// Copies single rows of a file that is being saved in the background, before a step changes them. It is used for heads
// with active classes, for which a step changes only a few rows of each file.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "runtime/checkpoint/background/save_memory.h"
#include "runtime/checkpoint/tensors/state_files.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

// Returns the rows of one file with the values that they had when its save began. All arguments outlive the object.
// Threads: one thread calls `read`, any others call `keep`. The mutex guards all members that change. It is held while
// rows are copied, but not while `read` reads rows of the state. `read` therefore works in small parts: if `keep` has
// to copy a row of the part that is being read, it waits until that part has been read. So each row is either read from
// the state before it changes, or it is copied before it changes and then read only from the copy.
class RowCopies {
 public:
  // REQUIRES: file.by_rows.
  RowCopies(const TrainState& state, const StateFile& file, SaveMemory& memory);
  ~RowCopies() { end(); }
  RowCopies(const RowCopies&) = delete;
  RowCopies& operator=(const RowCopies&) = delete;

  bool fits() const { return page_rows_ > 0; }  // whether one row fits into a page
  // Copies those of the given rows that have no copy yet; afterwards all of them may change. `rows`: ascending; rows of
  // other files are ignored. Copies nothing after end(). Returns false if there is not enough memory for the copies.
  // REQUIRES: fits().
  bool keep(std::span<const int32_t> rows);
  // Reads rows of a tensor of the file as they were when the save began.
  void read(const StateTensor& tensor, int64_t row_begin, int64_t row_end, std::byte* out);
  // Call after the last `read`: returns the memory of the copies to SaveMemory.
  void end();

 private:
  // A page of memory: first the numbers of the rows in it, then the values of each row, those of all tensors together.
  struct Page {
    std::byte* bytes = nullptr;
    int64_t count = 0;
  };

  size_t place_of(int64_t row) const { return static_cast<size_t>(row - file_.row_begin); }
  bool is_copied(int64_t row) const { return (copied_[place_of(row) / 64] >> (place_of(row) % 64) & 1) != 0; }
  int32_t* rows_of(const Page& page) const { return reinterpret_cast<int32_t*>(page.bytes); }
  std::byte* values_of(const Page& page, int64_t index) const {
    return page.bytes + page_rows_ * static_cast<Bytes>(sizeof(int32_t)) + index * row_bytes_;
  }
  bool add_page();
  void find_values();
  void read_part(const StateTensor& tensor, Bytes offset, int64_t row_begin, int64_t row_end, std::byte* out);

  const TrainState& state_;
  const StateFile& file_;
  SaveMemory& memory_;
  std::vector<std::pair<const StateTensor*, Bytes>> tensors_;  // tensors that steps change; offsets in a row's values
  Bytes row_bytes_ = 0;
  int64_t page_rows_ = 0;  // rows that fit into a page
  std::mutex mutex_;       // guards the members below
  std::condition_variable part_read_;
  std::vector<uint64_t> copied_;          // a bit for each row of the file: it has a copy
  std::vector<Page> pages_;               // all pages are full except the last
  std::vector<const std::byte*> values_;  // index: row of the file; filled by the first `read`; null: no copy
  int64_t part_begin_ = 0;                // the rows of the state that `read` is reading
  int64_t part_end_ = 0;
  bool ended_ = false;
};

}  // namespace xrun::runtime
