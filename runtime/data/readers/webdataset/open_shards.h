// Descriptors of the shards of a source: those of the first shards that are read stay open.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// Threads: any number of threads may call `open` at once.
class OpenShards {
 public:
  explicit OpenShards(size_t shards);
  ~OpenShards();
  OpenShards(const OpenShards&) = delete;

  // A descriptor that is valid while both objects exist.
  class File {
   public:
    File(int file, bool is_shared) : file_(file), is_shared_(is_shared) {}
    File(File&& other) noexcept : file_(other.file_), is_shared_(std::exchange(other.is_shared_, true)) {}
    ~File();
    int get() const { return file_; }
    void keep_open() { is_shared_ = true; }

   private:
    int file_;
    bool is_shared_;  // the descriptor stays open after this object
  };

  // Opens shard number `shard`. Errors: XG0412 it is missing, or has not `bytes` bytes any more; XG0401 the system
  // denies it.
  Result<File> open(size_t shard, const std::string& path, Bytes bytes) const;

 private:
  mutable std::vector<std::atomic<int>> files_;  // descriptor + 1 of each shard; 0: it is not kept open
  mutable std::atomic<int> left_;                // number of descriptors that may still be kept
};

}  // namespace xrun::runtime
