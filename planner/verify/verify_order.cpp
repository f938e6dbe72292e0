// Checks that two accesses to the same bytes are ordered if one of them is a write. A computation counts as accessing
// all bytes of a buffer; an exchange accesses its blocks, and adjacent blocks form one range. The instructions are
// processed in order. For each buffer the check keeps the last computations that wrote and read it, and the pieces that
// exchanges have accessed since that write. Each new access is compared with these. Computations end in order, and an
// event that is known to one computation is known to all later ones (planner/verify/past.h), so few comparisons are
// needed for each access.
// Tests: tests/planner/verify/verify_program_test.cpp
#include <algorithm>
#include <iterator>
#include <map>

#include "planner/verify/past.h"
#include "planner/verify/verify_parts.h"
#include "planner/verify/verify_program.h"

namespace xrun::planner {
namespace {

// The maximum number of pieces that are visited for exchanges. It bounds the check to some seconds and half a GiB of
// reads.
constexpr int64_t kMostWork = int64_t{1} << 26;

struct Range {
  BufferId buffer;
  bool written = false;
  Bytes begin = 0;
  Bytes end = 0;
};

// Returns the ranges of bytes that an exchange accesses in each buffer: first the ranges that it reads, then the ranges
// that it writes.
std::vector<Range> ranges_of(const Instruction& exchange) {
  std::vector<Range> all;
  for (const Operand& operand : exchange.operands) {
    for (const bool written : {false, true}) {
      if (operand.bytes > 0 && (operand.access == Access::kUpdate || (operand.access == Access::kWrite) == written)) {
        for_each_range(operand, [&](Bytes begin, Bytes end) { all.push_back({operand.buffer, written, begin, end}); });
      }
    }
  }
  std::ranges::sort(all, {}, [](const Range& range) { return std::tuple(range.buffer, range.written, range.begin); });
  std::vector<Range> merged;
  for (const Range& range : all) {
    if (!merged.empty() && merged.back().buffer == range.buffer && merged.back().written == range.written &&
        range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

class Order {
 public:
  explicit Order(const Program& program)
      : program_(program), past_(program), written_(program.buffers.size()), accesses_(program.buffers.size()) {}

  Status run() {
    for (const Instruction& one : program_.instructions) {
      XRUN_TRY(check_first_access(one));
      if (communicates(one.kind)) {
        for (const Range& range : ranges_of(one)) {
          XRUN_TRY(exchange(one.id.index, range));
        }
      } else {
        for (const BufferId id : one.reads) {
          XRUN_TRY(read(one.id.index, id));
        }
        for (const BufferId id : one.writes) {
          XRUN_TRY(write(one.id.index, id));
        }
      }
      if (work_ > kMostWork) {
        return wrong(
            "the blocks of its exchanges are more than can be verified: plan for fewer devices or micro-batches");
      }
    }
    for (const Buffer& buffer : program_.buffers) {
      if (!buffer.persistent && !written_[static_cast<size_t>(buffer.id.index)]) {
        return wrong("no instruction writes buffer {} ({})", buffer.id.index, buffer.name);
      }
    }
    return {};
  }

 private:
  // A range of bytes that exchanges have accessed since a computation wrote the buffer.
  struct Piece {
    Bytes end = 0;
    int32_t write = -1;          // the last exchange that wrote the range, or -1
    std::vector<int32_t> reads;  // exchanges that have read the range since then
  };
  struct Accesses {
    int32_t write = -1;  // the last computation that wrote the buffer, or -1
    int32_t read = -1;   // the last computation that read the buffer, or -1
    std::map<Bytes, Piece> pieces;
    // Exchanges that have not been compared with a computation yet.
    std::vector<int32_t> new_writes;
    std::vector<int32_t> new_reads;
  };

  Accesses& of(BufferId id) { return accesses_[static_cast<size_t>(id.index)]; }

  // Checks that the bytes that an instruction reads have been written before. If it reads and writes a buffer in place,
  // another instruction must have written the buffer.
  Status check_first_access(const Instruction& one) {
    for (const BufferId id : one.reads) {
      const Buffer& buffer = program_.buffer(id);
      if (!buffer.persistent && !written_[static_cast<size_t>(id.index)]) {
        return wrong("buffer {} ({}) is read before it was written", id.index, buffer.name);
      }
    }
    for (const BufferId id : one.writes) {
      written_[static_cast<size_t>(id.index)] = true;
    }
    return {};
  }

  Status in_no_order(int32_t before, int32_t now, BufferId id) const {
    return wrong("instructions {} and {} touch buffer {} ({}) in no order", before, now, id.index,
                 program_.buffer(id).name);
  }

  // Checks that all exchanges in `writes` are received, and all in `reads` are released, before instruction `now`
  // begins.
  Status check_over(std::span<const int32_t> writes, std::span<const int32_t> reads, int32_t now, BufferId id) {
    work_ += count_of(writes) + count_of(reads);
    for (const int32_t before : writes) {
      if (before >= 0 && before != now && !past_.received(before, now)) {
        return in_no_order(before, now, id);
      }
    }
    for (const int32_t before : reads) {
      if (before >= 0 && before != now && !past_.released(before, now)) {
        return in_no_order(before, now, id);
      }
    }
    return {};
  }

  static int64_t count_of(std::span<const int32_t> list) { return static_cast<int64_t>(list.size()); }

  // Checks a read by a computation. Exchanges that were compared with it need no comparison with later computations,
  // since an event that is known to this computation is known to all later ones.
  Status read(int32_t now, BufferId id) {
    Accesses& all = of(id);
    XRUN_TRY(check_over(all.new_writes, {}, now, id));
    all.new_writes.clear();
    all.read = now;
    return {};
  }

  Status write(int32_t now, BufferId id) {
    Accesses& all = of(id);
    XRUN_TRY(check_over(all.new_writes, all.new_reads, now, id));
    all = {.write = now};
    return {};
  }

  Status exchange(int32_t now, const Range& range) {
    Accesses& all = of(range.buffer);
    XRUN_TRY(check_over({&all.write, 1}, {&all.read, range.written ? 1U : 0U}, now, range.buffer));
    split(all.pieces, range.begin);
    split(all.pieces, range.end);
    auto at = all.pieces.lower_bound(range.begin);
    const auto end = all.pieces.lower_bound(range.end);
    if (range.written) {
      for (auto piece = at; piece != end; ++piece) {
        XRUN_TRY(check_over({&piece->second.write, 1}, piece->second.reads, now, range.buffer));
      }
      all.pieces.erase(at, end);
      all.pieces.emplace(range.begin, Piece{.end = range.end, .write = now});
      all.new_writes.push_back(now);
      return {};
    }
    Bytes next = range.begin;
    for (; at != end; ++at) {
      XRUN_TRY(check_over({&at->second.write, 1}, {}, now, range.buffer));
      at->second.reads.push_back(now);
      if (next < at->first) {
        all.pieces.emplace_hint(at, next, Piece{.end = at->first, .reads = {now}});
      }
      next = at->second.end;
    }
    if (next < range.end) {
      all.pieces.emplace_hint(end, next, Piece{.end = range.end, .reads = {now}});
    }
    all.new_reads.push_back(now);
    return {};
  }

  // Splits the piece, if there is one, that has bytes both before and after `at`.
  void split(std::map<Bytes, Piece>& pieces, Bytes at) {
    const auto after = pieces.lower_bound(at);
    if (after == pieces.begin()) {
      return;
    }
    Piece& left = std::prev(after)->second;
    if (left.end > at) {
      work_ += count(left.reads);
      pieces.emplace_hint(after, at, left);
      left.end = at;
    }
  }

  const Program& program_;
  const Past past_;
  std::vector<bool> written_;       // index: buffer; whether an instruction has written it
  std::vector<Accesses> accesses_;  // index: buffer
  int64_t work_ = 0;
};

}  // namespace

Status verify_order(const Program& program) { return Order(program).run(); }

}  // namespace xrun::planner
