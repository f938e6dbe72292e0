// The symbols that bytes of a buffer hold in a symbolic run of a program (planner/verify/symbolic_run.h), and a map
// from the bytes of a buffer to these symbols.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "planner/program/program.h"

namespace xrun::planner {

// The kind of a symbol. A symbol is a tensor of the step, with an order of its bytes that does not depend on the plan.
enum class What : uint8_t {
  kNothing,     // bytes that this step has not written, or that an instruction uses as working memory
  kZero,        // zeros, to which gradients may be added
  kValue,       // value `id` of the graph, for all rows or row blocks of the batch
  kBest,        // the best classes of the logits `id` (first = 0), or their logits (1), for all rows of the batch
  kPartial,     // gradient of parameter `id` in partial `first`, with the micro-batches up to `pass` (-1: with all)
  kSum,         // gradient of parameter `id`, summed over the replicas [first, last)
  kTiedSum,     // gradient of the tied weight `id`, summed over all replicas and all readers
  kPairs,       // pairs of the gradient of parameter `id` from all senders, in order, pairs_bytes each
  kNorms,       // sums of squares of all gradients (graph/layouts/norm_layout.h)
  kStatistics,  // statistics of all shards of head `id`, for the rows of pass `pass`
  kSoftmax,     // softmax of head `id`, for all rows of the batch
  kLogits,      // kept logits of shard `first` of head `id`, for the rows of pass `pass`
  kDx,          // dX partials of shard `first` of head `id`, for the rows of pass `pass`
  kDxSum,       // dX partials of the shards [first, last) of head `id` together, for the rows of micro-batch `pass`
  kKept,  // contents of a persistent buffer of `purpose`, of the tensor or node `id`, its shard or sender `first` and
          // its state or input `last`; `fresh` if this step has made them
};

struct Content {
  What what = What::kNothing;
  Purpose purpose = Purpose::kScratch;
  bool fresh = false;
  int32_t id = -1;
  int32_t first = -1;
  int32_t last = -1;
  int32_t pass = -1;
  bool operator==(const Content&) const = default;
};

// Returns the words for a symbol in messages, such as "the value `x`".
std::string describe(const Content& content, const Program& program, const Graph& graph);

// The symbols that the bytes of one buffer hold. Adjacent bytes of one symbol form one piece, so the map has few pieces
// also if the bytes were written in many parts. All functions take time logarithmic in the number of pieces, plus time
// linear in the number of pieces that they visit.
class Contents {
 public:
  struct Piece {
    Bytes begin = 0;
    Bytes end = 0;
    Content content;
    Bytes origin = 0;  // position of the first byte in the tensor of the symbol
  };

  // Sets the bytes [begin, end) to the bytes of `content` from `origin` on.
  void set(Bytes begin, Bytes end, const Content& content, Bytes origin);

  // Returns the first part of [begin, end) that does not hold the bytes of `content` from `origin` on, with what it
  // holds instead; nullopt if all bytes hold them.
  std::optional<Piece> lacks(Bytes begin, Bytes end, const Content& content, Bytes origin) const;

  // Calls `visit` for each piece inside [begin, end), in order, also for bytes that hold nothing.
  template <typename Visit>
  void for_each(Bytes begin, Bytes end, const Visit& visit) const {
    auto at = first_after(begin);
    while (begin < end) {
      if (at == pieces_.end() || at->first >= end) {
        visit(Piece{begin, end, {}, 0});
        return;
      }
      if (begin < at->first) {
        visit(Piece{begin, at->first, {}, 0});
        begin = at->first;
      }
      const Bytes to = std::min(end, at->second.end);
      visit(Piece{begin, to, at->second.content, at->second.origin + begin - at->first});
      begin = to;
      ++at;
    }
  }

  void clear() { pieces_.clear(); }

 private:
  struct Stored {
    Bytes end = 0;
    Content content;
    Bytes origin = 0;
  };
  using Pieces = std::map<Bytes, Stored>;  // key: first byte; bytes that hold nothing have no piece

  Pieces::const_iterator first_after(Bytes begin) const;
  void split(Bytes at);

  Pieces pieces_;
};

}  // namespace xrun::planner
