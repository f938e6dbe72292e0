// The ranks of a run, and what they tell one another. Texts go from each rank to all others in rounds: the n-th call of
// every rank is round n.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/peers.h"
#include "runtime/comm/ranks/network.h"
#include "runtime/comm/ranks/peer_memory.h"

namespace xrun::runtime {

// What a rank says in a round, as bytes: a text, or an error with its place.
std::string pack(const Result<std::string>& said);
Result<std::string> unpack(const std::string& bytes);

// Threads: one makes all calls.
class World final : public Peers, private ChannelEnd {
 public:
  // Waits for all ranks. `host`: the name of this one's. Without `direct` the ranks of one host treat each other like
  // those of two: they neither read each other's memory nor ring.
  // Errors: those of Network::start.
  static Result<std::unique_ptr<World>> join(std::function<std::unique_ptr<Messenger>(std::string& error)> make,
                                             const std::string& host, bool direct = true);
  // Ranks that still expect this one get an error in its place.
  ~World() override;

  int rank() const override { return network_->rank(); }
  int count() const override { return network_->count(); }
  std::string name(int rank) const override;
  const std::vector<std::string>& hosts() const { return hosts_; }  // by rank
  Bytes sent_to_hosts() const override { return sent_to_hosts_.load(std::memory_order_relaxed); }
  void count_sent(Bytes bytes) { sent_to_hosts_.fetch_add(bytes, std::memory_order_relaxed); }
  // "2 on a, 2 on b"
  std::string spread() const;

  Result<std::vector<std::string>> gather(Result<std::string> mine) override;
  using Peers::agree;
  Outcome agree(Outcome mine) override;

  // Whether this rank is to tell the user of an error that ends the run: not if it is another rank's.
  bool tells(const Error& error) const {
    return !failed_ || failed_->message != error.message || failed_rank_ == rank();
  }
  // This rank makes no further calls. Calls that others make get the error; without one, that the rank has ended.
  void leave(const std::optional<Error>& error = std::nullopt);
  // Leaves, where that has not happened, and waits until all ranks do the same. No call follows.
  void end();

  Network& network() { return *network_; }
  const Network& network() const { return *network_; }

  // The memory of a rank, where this one can read it, and whether that rank can read this one's.
  const PeerMemory* memory_of(int rank) const {
    const auto& memory = memories_[static_cast<size_t>(rank)];
    return memory ? &*memory : nullptr;
  }
  bool is_read_by(int rank) const { return readers_[static_cast<size_t>(rank)]; }

 private:
  World() = default;
  Status find_neighbours(bool direct);
  Error from_rank(int rank, Error error) const;
  void say(const Result<std::string>& mine, bool last = false);

  void on_message(int from, Message message) override;
  void work() override;
  void on_error(const Error& error, bool lost) override;
  bool waits() const override;

  std::vector<std::string> hosts_;  // written by the network's thread under the mutex, while `join` waits
  std::vector<std::optional<PeerMemory>> memories_;  // by rank; written in `join`
  std::vector<bool> readers_;                        // by rank: those that can read the memory of this one
  std::atomic<Bytes> sent_to_hosts_{0};
  int64_t round_ = 0;            // of the next call
  std::optional<Error> failed_;  // what the last call gave that failed, and whose error it was
  int failed_rank_ = -1;
  bool left_ = false;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<Message> outgoing_;                                // for all other ranks
  std::map<int64_t, std::map<int, Result<std::string>>> texts_;  // by round, by rank
  std::map<int, Error> gone_;                                    // ranks that make no further calls
  std::optional<Error> lost_;
  bool waiting_ = false;

  int channel_ = 0;
  std::unique_ptr<Network> network_;  // last: its thread uses the rest
};

}  // namespace xrun::runtime
