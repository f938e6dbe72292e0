// The ranks of a run, and the exchange of texts between them. In each round every rank sends a text to all others: the
// n-th call of every rank belongs to round n.
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

// Packs the contribution of a rank to a round (a text, or an error with its place) as bytes, and unpacks it.
std::string pack(const Result<std::string>& said);
Result<std::string> unpack(const std::string& bytes);

// Threads: one makes all calls.
class World final : public Peers, private ChannelEnd {
 public:
  // Connects this rank with the others, and waits for all of them. `host`: the name of this rank's host. Without
  // `direct`, ranks of the same host neither read each other's memory nor send each other wake-ups, like ranks of
  // different hosts.
  // Errors: those of Network::start.
  static Result<std::unique_ptr<World>> join(std::function<std::unique_ptr<Messenger>(std::string& error)> make,
                                             const std::string& host, bool direct = true);
  // Calls `end`: ranks that still expect a text of this one get an error.
  ~World() override;

  int rank() const override { return network_->rank(); }
  int count() const override { return network_->count(); }
  std::string name(int rank) const override;
  const std::vector<std::string>& hosts() const { return hosts_; }  // index: rank
  Bytes sent_to_hosts() const override { return sent_to_hosts_.load(std::memory_order_relaxed); }
  void count_sent(Bytes bytes) { sent_to_hosts_.fetch_add(bytes, std::memory_order_relaxed); }
  // The number of ranks on each host: "2 on a, 2 on b".
  std::string spread() const;

  Result<std::vector<std::string>> gather(Result<std::string> mine) override;
  using Peers::agree;
  Outcome agree(Outcome mine) override;

  // Whether this rank prints an error that ends the run. It does not if the error came from another rank, since that
  // rank prints it.
  bool tells(const Error& error) const {
    return !failed_ || failed_->message != error.message || failed_rank_ == rank();
  }
  // Announces that this rank makes no further calls. Later calls of other ranks return `error`, or if it is nullopt, an
  // error whose message is that this rank has ended.
  void leave(const std::optional<Error>& error = std::nullopt);
  // Calls `leave` if that has not happened, and waits until all ranks do the same. No other call may follow.
  void end();

  Network& network() { return *network_; }
  const Network& network() const { return *network_; }

  // `memory_of` returns the memory of a rank; null if this rank cannot read it. `is_read_by`: whether the rank can read
  // the memory of this rank.
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
  std::vector<std::optional<PeerMemory>> memories_;  // index: rank; written in `join`
  std::vector<bool> readers_;                        // index: rank; whether the rank can read the memory of this one
  std::atomic<Bytes> sent_to_hosts_{0};
  int64_t round_ = 0;            // round of the next call
  std::optional<Error> failed_;  // the error of the last failed call
  int failed_rank_ = -1;         // the rank that the error came from
  bool left_ = false;

  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::vector<Message> outgoing_;                                // messages that wait to be sent to all other ranks
  std::map<int64_t, std::map<int, Result<std::string>>> texts_;  // keys: round, rank
  std::map<int, Error> gone_;                                    // ranks that make no more calls, and their errors
  std::optional<Error> lost_;
  bool waiting_ = false;

  int channel_ = 0;
  std::unique_ptr<Network> network_;  // last member, because its thread uses the others
};

}  // namespace xrun::runtime
