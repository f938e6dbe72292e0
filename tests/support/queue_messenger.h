// Passes messages between ranks that are threads of one process. It is a test double for MPI: a message is read from
// its sender's memory some calls after it was sent, and counts as received some calls later.
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
  // `seed`: seed of the random delays of messages.
  explicit Switchboard(int ranks, uint64_t seed = 1) : seed_(seed), inboxes_(static_cast<size_t>(ranks)) {}

  // Makes the messenger of a rank. The switchboard must outlive it.
  std::unique_ptr<Messenger> join(int rank);
  // Makes all messengers fail with this message from now on.
  void cut(const std::string& words);

 private:
  friend class QueueMessenger;
  using Inbox = std::deque<std::pair<int, std::vector<std::byte>>>;  // pairs of sender and bytes

  const uint64_t seed_;
  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::vector<Inbox> inboxes_;  // indexed by rank
  size_t finished_ = 0;
  std::string error_;
};

}  // namespace xrun::runtime::testing
