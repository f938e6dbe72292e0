// Writes the files of a checkpoint in the background while later steps run. A background thread writes one file after
// the other, directly from the memory of the state. If a step is about to change values that have not been written, the
// workers of its device first copy the whole file into the memory for copies (SaveMemory), and it is written later; if
// it does not fit, they write it at once. For heads with active classes they copy only the rows that the step changes,
// even while the file of these rows is written. So there is no second copy of the whole state: a save needs only the
// memory for copies, and a chunk for each thread that writes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "graph/os/io.h"
#include "runtime/checkpoint/background/row_copies.h"
#include "runtime/checkpoint/background/save_memory.h"
#include "runtime/checkpoint/files/manifest.h"
#include "runtime/checkpoint/tensors/state_files.h"
#include "runtime/device/backend.h"
#include "runtime/device/background_work.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

// Threads: the thread that created the object calls all functions except `before` and `before_rows`.
class BackgroundSave final : public ChangeGuard {
 public:
  // Begins to save the state as it is now. All arguments outlive the object. Throws std::system_error if the system
  // cannot start a thread.
  BackgroundSave(const TrainState& state, Bytes range_bytes, int rank, std::string directory, Io& io,
                 SaveMemory& memory);
  // Abandons the files whose writing has not begun.
  ~BackgroundSave() override;

  void before(const planner::Instruction& instruction, ops::Workers& workers) override;
  void before_rows(const planner::Instruction& instruction, std::span<const int32_t> rows,
                   ops::Workers& workers) override;
  // Reads all values of the state that have not been read. Call before code other than instructions changes the state.
  void read_rest();
  // Whether some values of the state have not been read yet; while this is true, changes must be guarded.
  bool reads() const { return unread_ > 0; }

  // Whether all files are durable, or an error has ended the save.
  bool done() const { return done_; }
  void wait();
  // Returns the files that were written. REQUIRES: done(). Errors: those of write_file and SafetensorsWriter::finish;
  // kWorld if there is not enough memory.
  Result<std::vector<ManifestFile>> files() const;
  // The time that instructions waited for the save, on the device whose instructions waited longest.
  Seconds waited() const;

 private:
  // Rows of a tensor, and their place in the copy of the file that contains them.
  struct Part {
    const StateTensor* tensor = nullptr;
    int64_t row_begin = 0;
    int64_t row_end = 0;
    Bytes at = 0;
  };
  enum class Stage : uint8_t { kWaits, kIsRead, kCopied, kWritten };
  struct File {
    StateFile plan;
    Stage stage = Stage::kWaits;
    std::vector<Part> parts;    // all rows of the file, in the order of its tensors
    Bytes bytes = 0;            // size of all parts
    std::byte* copy = nullptr;  // destination of the copy, shared by all threads that need it
    size_t next_part = 0;
    size_t copied_parts = 0;
    // Tensors whose values are computed at the moment of reading (shifts): the values when the save began.
    std::vector<std::pair<const StateTensor*, std::vector<std::byte>>> held;
    std::unique_ptr<RowCopies> rows;          // null: the file is copied as a whole
    std::optional<SafetensorsWriter> writer;  // open until the file is durable
    ManifestFile saved;
  };

  void hold_computed(File& file) const;
  static void cut(File& file);
  void note_buffers(size_t index);
  // The main function of the background.
  void run();
  // Returns the files with values that an instruction changes.
  std::vector<size_t> files_changed_by(const planner::Instruction& instruction) const;
  void keep_rows(const std::vector<size_t>& wanted, std::span<const int32_t> rows, ops::Workers& workers);
  void wait_until_read(const std::vector<size_t>& wanted);
  void hurry();
  void note_wait(int device, Seconds waited);
  void read_now(const std::vector<size_t>& wanted, ops::Workers& workers);
  // Copies the file together with other threads. If there is no memory for the copy, one of these threads writes the
  // file directly.
  void read(File& file);
  // Claims a file for this thread if no thread has begun it and the save has not failed. Returns whether it did.
  bool claim(File& file);
  void help_to_copy(File& file);
  // Waits until no thread reads the file; returns whether it was copied and still has to be written.
  bool is_copied(File& file);
  void write(File& file);
  Status write_claimed(File& file);
  Status make_durable(File& file);
  void fail(Error error);

  const TrainState& state_;
  std::string directory_;
  Io& io_;
  SaveMemory& memory_;
  std::vector<File> files_;
  std::vector<std::vector<size_t>> files_of_;  // index: buffer; the files that contain values of it
  mutable std::mutex mutex_;                   // guards the next four members and the stages of files
  std::condition_variable changed_;
  std::optional<Error> error_;
  bool given_up_ = false;
  std::map<int, Seconds> waited_;  // key: device
  std::atomic<int64_t> open_ = 0;
  std::atomic<int64_t> unread_ = 0;
  std::atomic<bool> done_ = false;
  std::atomic<bool> hurries_ = false;   // the background thread has normal priority
  std::optional<BackgroundWork> work_;  // last member, because its thread reads the others
};

}  // namespace xrun::runtime
