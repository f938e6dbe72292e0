// An open tar shard, of which only the parts that are needed are read.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "runtime/formats/records/tar.h"

namespace xrun::runtime {

// Reads headers through a window of some KiB, so that a header, a small content and the next header often take one
// read. Not for several threads at once.
class ShardFile final : public TarBytes {
 public:
  // `file`: an open descriptor of the shard, which the caller closes.
  ShardFile(int file, const std::string& path, Bytes size, StopFlag stop = nullptr)
      : file_(file), path_(path), size_(size), stop_(stop) {}

  Bytes end() const override { return size_; }
  Result<std::span<const std::byte>> at(Bytes offset, Bytes count) override;

 private:
  int file_;
  const std::string& path_;
  Bytes size_;
  StopFlag stop_;
  std::vector<std::byte> window_;
  Bytes window_begin_ = 0;
};

// Fills `to` from an offset of an open shard. Errors, with the path: XG0401 the system denies the read; XG0412 the
// shard became shorter; kInterrupted.
Status read_at(int file, const std::string& path, Bytes offset, std::span<std::byte> to, StopFlag stop = nullptr);

// The size of an open shard, at most 2 TiB: positions are stored as 32-bit numbers of blocks. Errors: XG0401, XG0412.
Result<Bytes> shard_bytes(int file, const std::string& path);

}  // namespace xrun::runtime
