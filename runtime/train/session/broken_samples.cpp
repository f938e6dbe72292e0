#include "runtime/train/session/broken_samples.h"

#include <fmt/format.h>
#include <sstream>
#include <string>
#include <vector>

#include "graph/base/check.h"

namespace xrun::runtime {
namespace {

// Converts broken rows to text for other ranks. The length of each string precedes the string, since file names may
// contain any byte.
std::string to_text(std::span<const BrokenRow> rows) {
  std::string text;
  for (const BrokenRow& row : rows) {
    text += fmt::format("{} {} {} {} {}{}", row.row, row.attempt, row.sample.size(), row.message.size(), row.sample,
                        row.message);
  }
  return text;
}

std::vector<BrokenRow> rows_of(const std::string& text) {
  std::vector<BrokenRow> rows;
  std::istringstream in(text);
  size_t sample = 0;
  size_t message = 0;
  for (BrokenRow row; in >> row.row >> row.attempt >> sample >> message; rows.push_back(row)) {
    in.get();
    XRUN_CHECK(sample <= text.size() && message <= text.size(), "a rank has told of broken rows in another form");
    row.sample.resize(sample);
    row.message.resize(message);
    in.read(row.sample.data(), static_cast<std::streamsize>(sample));
    in.read(row.message.data(), static_cast<std::streamsize>(message));
  }
  return rows;
}

// Sends the broken rows of this rank to all ranks, and returns those that the other ranks have found. Collective.
// `any`: whether some rank has found broken rows.
Result<std::vector<BrokenRow>> exchange(Peers& peers, Result<std::vector<BrokenRow>> mine, bool& any) {
  XRUN_ASSIGN(const auto texts,
              peers.gather(mine.ok() ? Result<std::string>(to_text(*mine)) : Result<std::string>(mine.error())));
  std::vector<BrokenRow> others;
  any = false;
  for (int rank = 0; rank < peers.count(); ++rank) {
    const std::string& text = texts[static_cast<size_t>(rank)];
    any = any || !text.empty();
    if (rank != peers.rank()) {
      const std::vector<BrokenRow> theirs = rows_of(text);
      others.insert(others.end(), theirs.begin(), theirs.end());
    }
  }
  return others;
}

}  // namespace

Status wait_for_batch(BatchSource& batches, int64_t step, Peers* peers) {
  Status ready = batches.wait(step);
  if (peers == nullptr) {
    return ready;
  }
  // Repeats until no rank finds a broken sample: a replacement may also be broken, and another rank may read it.
  for (bool any = true; any;) {
    XRUN_ASSIGN(const auto others,
                exchange(*peers, ready.ok() ? Result(batches.take_broken(step)) : std::move(ready).error(), any));
    ready = batches.replace(step, others);
  }
  return {};
}

Status finish_rows(RowSource& source, Peers* peers, Status mine) {
  Status ready = mine.ok() ? source.finish() : std::move(mine);
  if (peers == nullptr) {
    return ready;
  }
  const auto found = source.broken_rows();
  bool any = false;
  XRUN_ASSIGN(const auto others, exchange(*peers,
                                          ready.ok() ? Result(std::vector<BrokenRow>(found.begin(), found.end()))
                                                     : Result<std::vector<BrokenRow>>(std::move(ready).error()),
                                          any));
  return any ? peers->agree(source.add_broken(others)) : Status();
}

}  // namespace xrun::runtime
