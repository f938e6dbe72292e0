#include "runtime/wall/token_bucket.h"

#include <algorithm>

namespace xrun::runtime {

Seconds TokenBucket::take(double tokens, Seconds asked) {
  const std::lock_guard lock(mutex_);
  given_ = std::max(given_, asked) + tokens / rate_;
  return given_;
}

}  // namespace xrun::runtime
