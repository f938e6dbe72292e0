// How the ranks of a run build the graph of one head together: each takes a snapshot of its class rows and builds a
// share of the lists, and all of them get all rows and all lists. Of one rank nothing is sent.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "ops/knn_shares.h"
#include "planner/program.h"
#include "runtime/comm/all_gather.h"
#include "runtime/train/session.h"

namespace xrun::runtime {

// Threads: a build calls `wait_for_rows` and `gather`; the thread that runs steps calls the others.
class GraphRanks final : public ops::KnnShares {
 public:
  // Of head `head` of the session's program. All arrays that are gathered lie in the session's host arena.
  GraphRanks(Session& session, size_t head);
  ~GraphRanks() override;

  int count() const override { return program_.ranks; }
  int index() const override { return session_.rank(); }
  // Workers that a build has on this rank.
  int workers() const { return planner::workers_of_rank(program_, session_.rank()); }

  // Begins to fill the rows [classes, dim] of other ranks' shards. REQUIRES: this rank's rows are there.
  void send_rows(float* rows);
  // Errors: those of the communicator; kInterrupted, cancelled.
  Status wait_for_rows();
  Status gather(std::span<std::byte> array, Bytes block) override;
  // Ends the waits of both.
  void cancel();

  // Before the lists of a build are used, each rank waits for its end: `listen`, then until its own is over or
  // `others_leave`, then `agree`. All ranks get one outcome: an error of any of them, or the wish of any to stop.
  void listen();
  // Another rank has ended its wait before its build, or is gone.
  bool others_leave() const { return words_ != nullptr && words_->left; }
  Outcome agree(Outcome mine);

 private:
  // One of each rank about one wait; kept by what is under way, too.
  struct Words {
    std::vector<std::byte> said;
    std::atomic<bool> left = false;
  };
  void broadcast_word(int rank);

  Session& session_;
  const planner::Program& program_;
  const planner::HeadPlan& head_;
  int first_channel_;
  std::unique_ptr<AllGather> rows_;    // none: one rank
  std::unique_ptr<AllGather> shares_;  // none: one rank
  std::shared_ptr<Words> words_;       // of the last wait; none: one rank
};

}  // namespace xrun::runtime
