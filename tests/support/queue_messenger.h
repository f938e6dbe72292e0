// Messages between ranks that are threads of one process. A test double that stands for MPI: a message is read from its
// sender's memory some calls after it was sent, and counts as received some calls after that.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/ranks/messenger.h"

namespace xrun::runtime::testing {

// Connects the ranks. Threads: any.
class Switchboard {
 public:
  // `seed`: of how long messages take.
  explicit Switchboard(int ranks, uint64_t seed = 1) : seed_(seed), inboxes_(static_cast<size_t>(ranks)) {}

  // The switchboard outlives the messenger.
  std::unique_ptr<Messenger> join(int rank);
  // From now on all messengers have this error.
  void cut(const std::string& words);

 private:
  friend class QueueMessenger;
  using Inbox = std::deque<std::pair<int, std::vector<std::byte>>>;  // from whom

  const uint64_t seed_;
  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::vector<Inbox> inboxes_;  // indexed by rank
  size_t finished_ = 0;
  std::string error_;
};

}  // namespace xrun::runtime::testing
