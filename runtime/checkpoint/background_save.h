// Writes the files of a checkpoint in the background of the steps after it. The state stays where it is: files are
// written from it one after the other, and those with values that a step is about to change are written before it
// changes them, by the workers of its device. Writing hands the bytes to the page cache; the background makes them
// durable later. So no second copy of the state is held, only a chunk for each thread that writes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/io.h"
#include "graph/base/result.h"
#include "runtime/background_work.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/state_files.h"
#include "runtime/device/backend.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

// The memory of all threads that may write at once, of kSaveChunk each; the same for all saves of a run. Threads: any.
class SaveChunks {
 public:
  explicit SaveChunks(int count);
  // Waits while all are in use.
  std::vector<std::byte> take();
  void give_back(std::vector<std::byte> chunk);

 private:
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<std::vector<std::byte>> free_;
};

// Threads: the one that made it calls all functions but `before`.
class BackgroundSave final : public ChangeGuard {
 public:
  // Saves the state as it is now. All arguments outlive the object. Throws std::system_error if the system lets no
  // thread start.
  BackgroundSave(const TrainState& state, Bytes range_bytes, int rank, std::string directory, Io& io,
                 SaveChunks& chunks);
  // Gives up the files that are not begun.
  ~BackgroundSave() override;

  void before(const planner::Instruction& instruction, ops::Workers& workers) override;
  // Writes what is not written yet, for changes that no instruction makes.
  void write_rest();
  // Whether values of the state are still to be read: changes must be guarded.
  bool reads() const { return unwritten_ > 0; }

  // Whether all files are durable, or an error has ended the save.
  bool done() const { return done_; }
  void wait();
  // REQUIRES: done(). Errors: those of write_file and SafetensorsWriter::finish; kWorld, no memory.
  Result<std::vector<ManifestFile>> files() const;
  // How long instructions waited: those of the device that waited longest.
  Seconds waited() const;

 private:
  enum class Stage : uint8_t { kWaits, kIsWritten, kWritten };
  struct File {
    StateFile plan;
    Stage stage = Stage::kWaits;
    std::vector<std::pair<const StateTensor*, std::vector<std::byte>>> held;  // computed values, read at once
    std::optional<SafetensorsWriter> writer;                                  // until the file is durable
    ManifestFile saved;
  };

  void hold_computed(File& file) const;
  void note_buffers(size_t index);
  // The work of the background.
  void run();
  void write_now(const std::vector<size_t>& wanted, ops::Workers& workers);
  // Takes a file that waits, unless the save has failed.
  bool claim(size_t index);
  void write(size_t index);
  Status write_claimed(File& file);
  Status make_durable(File& file);
  void fail(Error error);

  const TrainState& state_;
  std::string directory_;
  Io& io_;
  SaveChunks& chunks_;
  std::vector<File> files_;
  std::vector<std::vector<size_t>> files_of_;  // by buffer: the files that have values of it
  mutable std::mutex mutex_;                   // of the next four, and of the stages of files
  std::condition_variable written_;
  std::optional<Error> error_;
  bool given_up_ = false;
  std::map<int, Seconds> waited_;  // by device
  std::atomic<int64_t> open_ = 0;
  std::atomic<int64_t> unwritten_ = 0;
  std::atomic<bool> done_ = false;
  std::optional<BackgroundWork> work_;  // last: it reads the others
};

}  // namespace xrun::runtime
