// Counts over all shards of a source: a line that describes it, and warnings about unusual contents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "runtime/data/readers/webdataset/shard_samples.h"

namespace xrun::runtime {

class ShardReport {
 public:
  // Adds a shard. `fault`: why its index could not be used; `indexed`: whether it was used.
  void add(const std::string& path, const ShardSamples& shard, bool indexed, const std::string& fault);

  int64_t samples() const { return samples_; }
  int64_t labelled() const { return labelled_; }
  int64_t classes() const;  // the largest label plus one; 0: no labels
  std::string describe() const;

  // XG0441 indices that cannot be used, or many samples without an index; XG0442 each kind of unusual content.
  std::vector<Error> warnings() const;

 private:
  // A count with the first shard that contributed to it.
  struct Count {
    int64_t count = 0;
    std::string first;
    void add(int64_t more, const std::string& path);
  };
  static void warn(std::vector<Error>& all, const Count& count, std::string_view what, std::string_view help);

  int64_t shards_ = 0;
  int64_t samples_ = 0;
  int64_t labelled_ = 0;
  int64_t largest_label_ = -1;
  int64_t scanned_ = 0;  // samples of shards without a usable index
  std::vector<ExtensionCount> extensions_;
  std::vector<std::pair<std::string, std::string>> faults_;  // the first shards with unusable indices, and why
  int64_t faulty_ = 0;
  Count links_, others_, split_, no_end_, after_end_, crowded_;
};

}  // namespace xrun::runtime
