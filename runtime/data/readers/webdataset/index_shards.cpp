#include "runtime/data/readers/webdataset/index_shards.h"

#include <tbb/parallel_for.h>

#include "runtime/data/readers/webdataset/shard_index.h"
#include "runtime/data/readers/webdataset/shard_samples.h"

namespace xrun::runtime {
namespace {

Result<IndexedShard> index_shard(const std::string& shard, bool all) {
  if (!all) {
    XRUN_ASSIGN(const IndexedSamples stored, load_index(shard));
    if (stored.samples && !stored.older) {
      return IndexedShard{.samples = stored.samples->samples()};
    }
  }
  XRUN_ASSIGN(ShardSamples samples, scan_shard(shard, nullptr));
  IndexedShard indexed{.samples = samples.samples(), .written = true};
  XRUN_TRY(save_index(shard, std::move(samples)));
  return indexed;
}

}  // namespace

std::vector<IndexedShard> index_shards(const std::vector<std::string>& shards, bool all,
                                       const std::function<void()>& done) {
  std::vector<IndexedShard> indexed(shards.size());
  tbb::parallel_for(size_t{0}, shards.size(), [&](size_t i) {
    auto one = index_shard(shards[i], all);
    indexed[i] = one.ok() ? std::move(one).value() : IndexedShard{.samples = std::move(one).error()};
    done();
  });
  return indexed;
}

}  // namespace xrun::runtime
