// The rules for exchanges and copies, which move the symbols of their blocks. The i-th block that member A sends to
// device B must match the i-th block that member B receives from device A, since an executor waits until it has
// received all bytes of a block.
#include <algorithm>

#include "planner/program/buffer_sizes.h"
#include "planner/verify/symbolic_state.h"

namespace xrun::planner {
namespace {

// The maximum number of pieces that exchanges and copies move, which bounds the time of a run to some seconds.
constexpr int64_t kMostWork = int64_t{1} << 25;

}  // namespace

Status SymbolicState::check_work() const {
  return work_ <= kMostWork
             ? Status()
             : at_fault("moves more blocks than can be verified: plan for fewer devices or micro-batches");
}

Status SymbolicState::exchange(std::span<const Instruction> members) {
  std::vector<Block> sent;
  std::vector<Block> received;
  for (const Instruction& member : members) {
    begin(member);
    for (size_t i = 0; i < member.operands.size(); ++i) {
      const Operand& operand = member.operands[i];
      const bool sends = operand.role == Role::kSent;
      if ((!sends && operand.role != Role::kReceived) || operand.by != By::kNothing || operand.node.valid() ||
          operand.param.valid() || operand.step != 0 || operand.access != (sends ? Access::kRead : Access::kWrite)) {
        return at_fault("has an operand {} ({}) that is not a block", i, name_of(operand.role));
      }
      XRUN_TRY(touch(operand, operand.offset, operand.bytes, !sends));
      XRUN_TRY(check_block(operand));
      (sends ? sent : received)
          .push_back(sends ? Block{member.device, operand.index, i, &member}
                           : Block{operand.index, member.device, i, &member});
    }
    XRUN_TRY(check_apart(touches_));
  }
  const auto order = [](const Block& block) { return std::tuple(block.from, block.to, block.at); };
  std::ranges::sort(sent, {}, order);
  std::ranges::sort(received, {}, order);
  return move_blocks(sent, received);
}

// Checks that a block is in a buffer of the member's device that lasts for a step. At run time, a block in a buffer of
// pairs shrinks to the pairs of one sender at the density of the step, so it must have all pairs of one sender.
Status SymbolicState::check_block(const Operand& operand) const {
  const Buffer& buffer = program_.buffer(operand.buffer);
  if (buffer.device != one_->device || buffer.persistent || operand.bytes == 0) {
    return at_fault("has a block of {} bytes in buffer {} ({}), which cannot be exchanged", operand.bytes,
                    buffer.id.index, buffer.name);
  }
  if (buffer.purpose != Purpose::kPairs) {
    return {};
  }
  bool whole = operand.bytes == pairs_bytes(module_, buffer.param);
  if (operand.role == Role::kSent) {
    contents(buffer.id).for_each(operand.offset, operand.offset + operand.bytes, [&](const Contents::Piece& piece) {
      const bool all = piece.content.what == What::kPairs && piece.content.id == buffer.param.index &&
                       piece.origin == 0 && piece.end - piece.begin == operand.bytes;
      whole = whole && (all || piece.content.what == What::kNothing);
    });
  }
  return whole ? Status()
               : at_fault("has a block of {} bytes in buffer {} ({}) that is not all pairs of one sender",
                          operand.bytes, buffer.id.index, buffer.name);
}

// Moves the contents of all blocks, which are sorted by sender and receiver: first all are read, then all are written.
Status SymbolicState::move_blocks(std::span<const Block> sent, std::span<const Block> received) {
  struct Moved {
    BufferId to;
    Contents::Piece piece;
  };
  std::vector<Moved> moved;
  for (size_t i = 0; i < std::max(sent.size(), received.size()); ++i) {
    const auto way = [](const Block& block) { return std::pair(block.from, block.to); };
    const bool sends = i < sent.size() && (i >= received.size() || way(sent[i]) < way(received[i]));
    one_ = sends ? sent[i].member : received[i].member;
    if (sends || i >= sent.size() || way(sent[i]) != way(received[i])) {
      return sends ? at_fault("sends device {} a block that it does not receive", sent[i].to)
                   : at_fault("receives a block that device {} does not send", received[i].from);
    }
    const Operand& from = sent[i].member->operands[sent[i].at];
    const Operand& to = received[i].member->operands[received[i].at];
    if (from.bytes != to.bytes) {
      return at_fault("receives {} bytes of device {}, which sends {}", to.bytes, sent[i].from, from.bytes);
    }
    const Buffer& source = program_.buffer(from.buffer);
    const Buffer& target = program_.buffer(to.buffer);
    const bool pairs = source.purpose == Purpose::kPairs || target.purpose == Purpose::kPairs;
    if (pairs && (source.purpose != target.purpose || source.param != target.param)) {
      return at_fault("receives pairs in buffer {} ({}), which has no pairs of this weight", target.id.index,
                      target.name);
    }
    contents(from.buffer).for_each(from.offset, from.offset + from.bytes, [&](Contents::Piece piece) {
      piece.begin += to.offset - from.offset;
      piece.end += to.offset - from.offset;
      moved.push_back({to.buffer, piece});
    });
    if (work_ + std::ssize(moved) > kMostWork) {
      break;  // `run` refuses the program
    }
  }
  for (const auto& [to, piece] : moved) {
    put(to, piece.begin, piece.end - piece.begin, piece.content, piece.origin);
  }
  work_ += std::ssize(moved);
  return {};
}

Status SymbolicState::copy() {
  while (next_is(Role::kFrom)) {
    XRUN_ASSIGN(const Operand* from, next({.role = Role::kFrom, .access = Access::kRead}));
    XRUN_ASSIGN(const Operand* to, next({.role = Role::kTo, .access = Access::kWrite}));
    if (from->bytes != to->bytes) {
      return at_fault("copies {} bytes to {}", from->bytes, to->bytes);
    }
    XRUN_TRY(touch(*from, from->offset, from->bytes, false));
    XRUN_TRY(touch(*to, to->offset, to->bytes, true));
    std::vector<Contents::Piece> pieces;
    contents(from->buffer).for_each(from->offset, from->offset + from->bytes, [&](const Contents::Piece& piece) {
      pieces.push_back(piece);
    });
    for (const Contents::Piece& piece : pieces) {
      put(to->buffer, piece.begin + to->offset - from->offset, piece.end - piece.begin, piece.content, piece.origin);
    }
    work_ += std::ssize(pieces);
  }
  return end();
}

}  // namespace xrun::planner
