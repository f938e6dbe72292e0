// Tests: tests/runtime/runs/rank_graphs_test.cpp
#include "runtime/train/knn/knn_ranks.h"

#include <algorithm>
#include <utility>

#include "graph/base/check.h"

namespace xrun::runtime {
namespace {

// The channels for broadcasts that belong to a head.
enum : int { kRows, kShares, kWords, kChannels };
constexpr std::byte kLeft{1};

}  // namespace

GraphRanks::GraphRanks(Session& session, size_t head)
    : session_(session),
      program_(session.program()),
      head_(program_.heads[head]),
      first_channel_(static_cast<int>(head) * kChannels) {
  if (count() > 1) {
    XRUN_CHECK(session.communicator() != nullptr, "several ranks have a communicator");
    rows_ = std::make_unique<AllGather>(*session.communicator(), first_channel_ + kRows);
    shares_ = std::make_unique<AllGather>(*session.communicator(), first_channel_ + kShares);
  }
}

GraphRanks::~GraphRanks() = default;

void GraphRanks::send_rows(float* rows) {
  if (rows_ == nullptr) {
    return;
  }
  std::vector<AllGather::Part> parts;
  for (const planner::HeadShard& shard : head_.shards) {
    const std::span own(rows + shard.row_begin * head_.dim,
                        static_cast<size_t>((shard.row_end - shard.row_begin) * head_.dim));
    parts.push_back({program_.rank_of(shard.device), std::as_writable_bytes(own)});
  }
  rows_->begin(std::move(parts));
}

Status GraphRanks::wait_for_rows() { return rows_ == nullptr ? Status() : rows_->wait(); }

Status GraphRanks::gather(std::span<std::byte> array, Bytes block) {
  if (shares_ == nullptr) {
    return {};
  }
  const auto size = static_cast<int64_t>(array.size());
  std::vector<AllGather::Part> parts;
  for (int rank = 0; rank < count(); ++rank) {
    const BlockRange blocks = of((size + block - 1) / block, rank);
    const auto begin = static_cast<size_t>(blocks.begin * block);
    const auto end = static_cast<size_t>(std::min(blocks.end * block, size));
    parts.push_back({rank, array.subspan(begin, end - begin)});
  }
  shares_->begin(std::move(parts));
  return shares_->wait();
}

void GraphRanks::cancel() {
  for (AllGather* one : {rows_.get(), shares_.get()}) {
    if (one != nullptr) {
      one->cancel();
    }
  }
}

void GraphRanks::listen() {
  if (count() == 1) {
    return;
  }
  words_ = std::make_shared<Words>();
  words_->said.resize(static_cast<size_t>(count()));
  for (int rank = 0; rank < count(); ++rank) {
    if (rank != index()) {
      broadcast_word(rank);
    }
  }
}

Outcome GraphRanks::agree(Outcome mine) {
  if (count() == 1) {
    return mine;
  }
  words_->said[static_cast<size_t>(index())] = mine.stop || !mine.status.ok() ? kLeft : std::byte{};
  broadcast_word(index());
  return session_.communicator()->agree(std::move(mine));
}

void GraphRanks::broadcast_word(int rank) {
  const auto done = [](void* context, int32_t from, Status completed, Seconds) {
    const std::unique_ptr<std::shared_ptr<Words>> words(static_cast<std::shared_ptr<Words>*>(context));
    if (!completed.ok() || (*words)->said[static_cast<size_t>(from)] == kLeft) {
      (*words)->left = true;
    }
  };
  session_.communicator()->broadcast(
      first_channel_ + kWords, rank, std::span(words_->said).subspan(static_cast<size_t>(rank), 1),
      {.done = done, .context = new std::shared_ptr<Words>(words_), .argument = static_cast<int32_t>(rank)});
}

}  // namespace xrun::runtime
