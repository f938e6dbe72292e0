// A token bucket: a resource with a rate, such as a link or the cores of a machine, which several users share by the
// clock. An empty bucket stays empty, so that a use after an idle time is not faster than the rate.
#pragma once

#include <deque>
#include <mutex>

#include "graph/base/units.h"

namespace xrun::runtime {

// Threads: any.
class TokenBucket {
 public:
  // `rate`: tokens a second, more than zero.
  explicit TokenBucket(double rate) : rate_(rate) {}

  // Takes tokens, and returns the time at which the bucket has given the last one. It gives them in the order of the
  // calls, at its rate, from `asked` on at the earliest. A user that takes small amounts in turn with others, and takes
  // again when it has its tokens, gets a fair share.
  Seconds take(double tokens, Seconds asked);

 private:
  const double rate_;
  std::mutex mutex_;
  Seconds given_ = 0;  // when all tokens that were taken so far are given; guarded by mutex_
};

using TokenBuckets = std::deque<TokenBucket>;

}  // namespace xrun::runtime
