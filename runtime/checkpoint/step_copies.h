// Makes the second copies of a run with any number of ranks: decides which host copies which files, and when.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/copies/second_copy.h"
#include "runtime/checkpoint/files/shared_directory.h"
#include "runtime/checkpoint/store.h"

namespace xrun::runtime {

// The first rank of each host copies the files that the ranks of the previous host have written; with one host, it
// copies all files. One checkpoint is copied at a time. If several checkpoints are saved meanwhile, only the newest of
// them is copied next, and the others get no copy, so that no step waits for a slow disk.
// Threads: the trainer's. All functions are called by all ranks, with the same arguments.
class StepCopies {
 public:
  // Opens the directory of copies on each host. REQUIRES: all ranks see the directory of the run, which exists. Errors:
  // those of SecondCopy::open, on any host; XG0701 a directory has copies of another run.
  static Result<std::unique_ptr<StepCopies>> open(const CheckpointOptions& options);

  // Call when the checkpoint of a step is durable: it is copied now or later. `files`: the files of all ranks, without
  // the text of the model.
  void add(int64_t step, const RankFiles& files);
  // Implements CheckpointStore::copies. Collective while a copy is under way.
  Result<std::vector<CheckpointCopy>> follow(bool wait);
  // Returns the steps whose copies are not finished: they must stay in the directory of the run.
  std::vector<int64_t> needed() const;

  const std::string& path() const { return path_; }
  // Whether this rank reads and writes the copies of its host.
  bool copies() const { return own_ != nullptr; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Step {
    int64_t step = 0;
    CopyShare share;  // the files that this host copies
    Clock::time_point begin{};
  };

  StepCopies(std::string path, std::vector<int> hosts, Peers* peers)
      : path_(std::move(path)), hosts_(std::move(hosts)), peers_(peers) {}
  CopyShare share_of(const RankFiles& files) const;
  void begin(Step step);
  std::string said() const;
  CheckpointCopy result_of(const std::vector<std::string>& texts) const;
  std::string place_of(int64_t step) const;

  std::string path_;
  std::vector<int> hosts_;  // index: rank
  Peers* peers_;
  std::unique_ptr<SecondCopy> own_;  // only on the first rank of a host
  std::optional<Step> under_way_;    // equal on all ranks, like the next two members
  std::optional<Step> waiting_;
  std::vector<CheckpointCopy> ended_;  // results of copies that were given up, for `follow` to return
  std::string no_thread_;              // the reason why the copy under way could not start on this rank
};

}  // namespace xrun::runtime
