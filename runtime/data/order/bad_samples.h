// The broken samples of a run: each is reported once, and their share is limited. Threads: any thread may call.
#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "graph/base/result.h"

namespace xrun::runtime {

class BadSamples {
 public:
  // `max_bad`: the share of `samples` that may be broken; `tell` calls `on_bad` with a message for each broken sample.
  BadSamples(int64_t samples, double max_bad, std::function<void(const std::string&)> on_bad)
      : samples_(samples), limit_(max_bad * static_cast<double>(samples)), on_bad_(std::move(on_bad)) {}

  // Records a broken sample. Errors: XG0408 more samples are broken than `max_bad` allows. The message contains this
  // sample. The count in it is the lowest count above the limit, so it does not depend on the samples that other
  // workers find meanwhile.
  Status add(int64_t sample, const std::string& fault) {
    const std::scoped_lock lock(mutex_);
    if (bad_.insert(sample).second) {
      untold_.push_back(fault);
    }
    if (static_cast<double>(bad_.size()) > limit_) {
      return Error{.kind = ErrorKind::kContent,
                   .code = "XG0408",
                   .message = fmt::format("{} of {} samples are broken, more than `max_bad` allows; the last: {}",
                                          static_cast<int64_t>(limit_) + 1, samples_, fault),
                   .help = "fix or remove the files, or raise `max_bad` in `data`"};
    }
    return {};
  }
  // Reports the samples that were not reported yet, on the calling thread.
  void tell() {
    std::vector<std::string> messages;
    {
      const std::scoped_lock lock(mutex_);
      messages.swap(untold_);
    }
    for (const std::string& message : messages) {
      if (on_bad_) {
        on_bad_(message);
      }
    }
  }
  int64_t count() const {
    const std::scoped_lock lock(mutex_);
    return static_cast<int64_t>(bad_.size());
  }

 private:
  int64_t samples_;
  double limit_;
  std::function<void(const std::string&)> on_bad_;
  mutable std::mutex mutex_;
  std::set<int64_t> bad_;
  std::vector<std::string> untold_;
};

}  // namespace xrun::runtime
