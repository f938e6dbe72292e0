// Tests: tests/runtime/data/readers/webdataset/webdataset_test.cpp
#include "runtime/data/readers/webdataset/open_shards.h"

#include <algorithm>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/data/readers/encoded_file.h"
#include "runtime/data/readers/webdataset/shard_file.h"
#include "runtime/formats/open_file.h"

namespace xrun::runtime {
namespace {

// At most this many descriptors, and a quarter of those that the process may have, are kept open.
constexpr rlim_t kMostOpen = 256;

int most_open() {
  rlimit limit{};
  const rlim_t allowed = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
  return static_cast<int>(std::min(allowed / 4, kMostOpen));
}

}  // namespace

OpenShards::OpenShards(size_t shards) : files_(shards), left_(most_open()) {}

OpenShards::~OpenShards() {
  for (const std::atomic<int>& file : files_) {
    if (file.load() > 0) {
      ::close(file.load() - 1);
    }
  }
}

OpenShards::File::~File() {
  if (!is_shared_) {
    ::close(file_);
  }
}

Result<OpenShards::File> OpenShards::open(size_t shard, const std::string& path, Bytes bytes) const {
  std::atomic<int>& kept = files_[shard];
  if (const int file = kept.load(std::memory_order_acquire); file > 0) {
    return File(file - 1, true);
  }
  const auto opened = open_ordinary(path);
  if (!opened.ok()) {
    // Only a missing file is a broken sample, which may be replaced; see read_encoded.
    return opened.error().kind == ErrorKind::kContent ? broken_sample("the shard is missing") : opened.error();
  }
  File file(*opened, false);
  XRUN_ASSIGN(const Bytes found, shard_bytes(file.get(), path));
  if (found != bytes) {
    return broken_sample("the shard has another size than when it was opened");
  }
  if (left_.fetch_sub(1) <= 0) {
    left_.fetch_add(1);
    return file;
  }
  int none = 0;
  if (!kept.compare_exchange_strong(none, file.get() + 1, std::memory_order_acq_rel)) {
    left_.fetch_add(1);  // another thread was first
    return file;
  }
  file.keep_open();
  return file;
}

}  // namespace xrun::runtime
