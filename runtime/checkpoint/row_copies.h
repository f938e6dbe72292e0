// Copies of single rows of a checkpoint's file, which steps change before the file is written. Heads with active
// classes have such files: a step changes few rows of each.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "runtime/checkpoint/save_memory.h"
#include "runtime/checkpoint/state_files.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

// The rows of one file as they were when its save began. All arguments outlive the object.
// Threads: one reads, any others keep rows. The mutex guards everything that changes; it is held while rows are copied,
// but not while rows of the state are read for the file. These are read in small parts, and a row of the part being
// read is copied, and so changes, only after the part. So a row either is read before it changes, or has a copy, and
// then the row of the state is never read.
class RowCopies {
 public:
  // REQUIRES: file.by_rows.
  RowCopies(const TrainState& state, const StateFile& file, SaveMemory& memory);
  ~RowCopies() { end(); }
  RowCopies(const RowCopies&) = delete;
  RowCopies& operator=(const RowCopies&) = delete;

  bool fits() const { return page_rows_ > 0; }  // whether a row fits into a page
  // Copies those of `rows` that have no copy yet; `rows` may include rows of other files. Afterwards they may change.
  // Copies nothing after end(). False: there is no memory for one of them. `rows`: ascending. REQUIRES: fits().
  bool keep(std::span<const int32_t> rows);
  // Reads rows of a tensor of the file as they were when the save began.
  void read(const StateTensor& tensor, int64_t row_begin, int64_t row_end, std::byte* out);
  // Ends reading, and gives the memory back.
  void end();

 private:
  // The numbers of rows, then their values: for each row those of all tensors.
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
  std::vector<std::pair<const StateTensor*, Bytes>> tensors_;  // those that steps change; offsets in a row's values
  Bytes row_bytes_ = 0;
  int64_t page_rows_ = 0;  // rows that fit into a page
  std::mutex mutex_;       // guards the members below
  std::condition_variable part_read_;
  std::vector<uint64_t> copied_;          // a bit for each row
  std::vector<Page> pages_;               // all full except the last
  std::vector<const std::byte*> values_;  // index: row of the file; filled by the first `read`; null: no copy
  int64_t part_begin_ = 0;                // the rows of the state being read
  int64_t part_end_ = 0;
  bool ended_ = false;
};

}  // namespace xrun::runtime
