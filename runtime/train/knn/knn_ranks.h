// Communication between the ranks that build the graph of one head together. Each rank takes a snapshot of its class
// rows and builds a share of the lists of neighbours; then all ranks exchange their rows and lists. A single rank sends
// nothing.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "ops/knn/knn_shares.h"
#include "planner/program/program.h"
#include "runtime/comm/all_gather.h"
#include "runtime/train/session/session.h"

namespace xrun::runtime {

// Threads: a build calls `wait_for_rows` and `gather`; the thread that runs steps calls the others.
class GraphRanks final : public ops::KnnShares {
 public:
  // `head`: index in Program::heads of the session's program. REQUIRES: all arrays that are gathered lie in the
  // session's host arena.
  GraphRanks(Session& session, size_t head);
  ~GraphRanks() override;

  int count() const override { return program_.ranks; }
  int index() const override { return session_.rank(); }
  // The number of workers of a build on this rank.
  int workers() const { return planner::workers_of_rank(program_, session_.rank()); }

  // Begins to gather `rows` [classes, dim] from all ranks. REQUIRES: this rank has filled the rows of its shards.
  void send_rows(float* rows);
  // Waits until the rows of all ranks have arrived. Errors: those of the communicator; kInterrupted, cancelled.
  Status wait_for_rows();
  Status gather(std::span<std::byte> array, Bytes block) override;
  // Makes wait_for_rows and `gather` return with kInterrupted.
  void cancel();

  // Before the ranks use the lists of a build, they agree as follows. Each rank calls `listen`, waits until its own
  // build has ended or `others_leave` returns true, and then calls `agree`. All ranks get the same outcome: the error
  // of any rank, and whether any rank stops.
  void listen();
  // Whether another rank no longer waits for the build, because it failed, stops or is gone.
  bool others_leave() const { return words_ != nullptr && words_->left; }
  Outcome agree(Outcome mine);

 private:
  // One byte from each rank for one wait: whether that rank no longer waits. Broadcasts under way also own the
  // object.
  struct Words {
    std::vector<std::byte> said;
    std::atomic<bool> left = false;
  };
  void broadcast_word(int rank);

  Session& session_;
  const planner::Program& program_;
  const planner::HeadPlan& head_;
  int first_channel_;
  std::unique_ptr<AllGather> rows_;    // null: one rank
  std::unique_ptr<AllGather> shares_;  // null: one rank
  std::shared_ptr<Words> words_;       // for the current wait; null: one rank
};

}  // namespace xrun::runtime
