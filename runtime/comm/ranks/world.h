// The ranks of a run, and what they tell one another. Texts go from each rank to all others in rounds: the n-th call of
// every rank is round n.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/peers.h"
#include "runtime/comm/ranks/network.h"

namespace xrun::runtime {

// What a rank says in a round, as bytes: a text, or an error with its place.
std::string pack(const Result<std::string>& said);
Result<std::string> unpack(const std::string& bytes);

// Threads: one makes all calls.
class World final : public Peers, private ChannelEnd {
 public:
  // Waits for all ranks. `host`: the name of this one's. Errors: those of Network::start.
  static Result<std::unique_ptr<World>> join(std::function<std::unique_ptr<Messenger>(std::string& error)> make,
                                             const std::string& host);
  // Ranks that still expect this one get an error in its place.
  ~World() override;

  int rank() const override { return network_->rank(); }
  int count() const override { return network_->count(); }
  std::string name(int rank) const override;
  const std::vector<std::string>& hosts() const { return hosts_; }  // by rank
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

  Network& network() { return *network_; }

 private:
  World() = default;
  Error from_rank(int rank, Error error) const;
  void say(const Result<std::string>& mine, bool last = false);

  void on_message(int from, Message message) override;
  void work() override;
  void on_error(const Error& error, bool lost) override;
  bool waits() const override;

  std::vector<std::string> hosts_;  // written by the network's thread under the mutex, while `join` waits
  int64_t round_ = 0;               // of the next call
  std::optional<Error> failed_;     // what the last call gave that failed, and whose error it was
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
