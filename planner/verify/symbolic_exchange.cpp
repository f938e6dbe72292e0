// The rules for exchanges and copies, which move the symbols of their blocks. The i-th block that member A sends to
// device B must match the i-th block that member B receives from device A, since an executor waits until it has
// received all bytes of a block. First all sent blocks are read; then each member receives its blocks. The run of an
// operand usually has adjacent parts of one symbol, which are written as one piece.
#include <algorithm>

#include "planner/program/buffer_sizes.h"
#include "planner/verify/symbolic_state.h"

namespace xrun::planner {
namespace {

// The maximum number of visits of operands, plus pieces that exchanges and copies move. It limits the time of a
// symbolic run to some seconds.
constexpr int64_t kMostWork = int64_t{1} << 28;
// The maximum number of pieces in the blocks that the members of an exchange send, which bounds the memory of a run.
constexpr int64_t kMostPieces = int64_t{1} << 25;

// Returns the weight whose pairs a buffer has; -1 if it has other data.
int32_t weight_of_pairs(const Buffer& buffer) { return buffer.purpose == Purpose::kPairs ? buffer.param.index : -1; }

// Returns whether `next` follows `piece` both in the buffer and in the tensor of the symbol.
bool continues(const Contents::Piece& piece, const Contents::Piece& next) {
  const What what = piece.content.what;
  return piece.end == next.begin && piece.content == next.content &&
         (what == What::kNothing || what == What::kZero || piece.origin + piece.end - piece.begin == next.origin);
}

}  // namespace

// The blocks that the members of an exchange send, with their contents before the exchange.
class SentBlocks {
 public:
  struct Run {
    int first = 0;  // the first and the last receiver
    int last = 0;
    int stride = 0;
    int32_t pairs = -1;  // weight_of_pairs of its buffer
    Bytes bytes = 0;
    size_t contents = 0;  // index in `begins_` of the contents of the first block
    bool equal = true;    // whether all receivers get the first block
  };
  struct Block {
    const Run* run = nullptr;
    std::span<const Contents::Piece> pieces;  // their places are counted from the start of the block
  };

  // Counts the visits of runs in `work`.
  explicit SentBlocks(int64_t& work) : work_(work) {}

  void begin_member() { runs_of_.push_back(runs_.size()); }

  // Adds the blocks of an operand. Too many pieces are counted as too much work, and the object is not used then.
  void add(const Operand& operand, const Buffer& buffer, const Contents& contents) {
    const int blocks = operand.step == 0 ? 1 : operand.count;
    runs_.push_back({operand.index, operand.device(operand.count - 1), operand.stride, weight_of_pairs(buffer),
                     operand.bytes, begins_.size(), blocks == 1});
    left_ += operand.count;
    for (int k = 0; k < blocks && std::ssize(pieces_) <= kMostPieces; ++k) {
      begins_.push_back(pieces_.size());
      const Bytes begin = operand.place(k);
      contents.for_each(begin, begin + operand.bytes, [&](Contents::Piece piece) {
        piece.begin -= begin;
        piece.end -= begin;
        pieces_.push_back(piece);
      });
    }
    work_ += std::ssize(pieces_) > kMostPieces ? kMostWork + 1 : 0;
  }

  // Ends the list of blocks, after those of all members.
  void end() {
    runs_of_.push_back(runs_.size());
    begins_.push_back(pieces_.size());
  }

  // Prepares for the blocks that all members send to another receiver.
  void restart() { next_.assign(runs_of_.begin(), runs_of_.end() - 1); }

  // Returns the next block that a member sends to a device, or a block without run if the member sends no further one.
  Block next(size_t member, int device) {
    for (size_t& at = next_[member]; at < runs_of_[member + 1];) {
      const Run& run = runs_[at++];
      ++work_;
      const int far = device - run.first;
      if (far < 0 || device > run.last || (run.stride > 1 && far % run.stride != 0)) {
        continue;
      }
      --left_;
      const size_t block = run.contents + (run.equal ? 0 : static_cast<size_t>(far / run.stride));
      return {&run, std::span(pieces_).subspan(begins_[block], begins_[block + 1] - begins_[block])};
    }
    return {};
  }

  int64_t left() const { return left_; }  // number of blocks that no member has taken

 private:
  std::vector<Run> runs_;
  std::vector<size_t> runs_of_;  // index: member; its first run
  std::vector<size_t> begins_;   // index: block; its first piece
  std::vector<Contents::Piece> pieces_;
  std::vector<size_t> next_;  // index: member; the run after that of its last block for the receiver
  int64_t left_ = 0;
  int64_t& work_;
};

Status SymbolicState::check_work() const {
  return work_ <= kMostWork
             ? Status()
             : at_fault("moves more blocks than can be verified: plan for fewer devices or micro-batches");
}

Status SymbolicState::exchange(std::span<const Instruction> members) {
  SentBlocks sent(work_);
  for (size_t m = 0; m < members.size(); ++m) {
    const Instruction& member = members[m];
    begin(member);
    sent.begin_member();
    member_on_[static_cast<size_t>(member.device)] = static_cast<int32_t>(m);
    for (size_t i = 0; i < member.operands.size(); ++i) {
      const Operand& operand = member.operands[i];
      const bool sends = operand.role == Role::kSent;
      const bool block = operand.count == 1 && operand.step == 0;
      const bool run = operand.count > 1 && operand.stride > 0 && (sends || operand.step >= operand.bytes);
      if ((!sends && operand.role != Role::kReceived) || (!block && !run) || operand.by != By::kNothing ||
          operand.node.valid() || operand.param.valid() || operand.access != (sends ? Access::kRead : Access::kWrite)) {
        return at_fault("has an operand {} ({}) that is not a block", i, name_of(operand.role));
      }
      Status touched;
      for_each_range(operand, [&](Bytes from, Bytes to) {
        touched = touched.ok() ? touch(operand, from, to - from, !sends) : std::move(touched);
      });
      XRUN_TRY(std::move(touched));
      XRUN_TRY(check_block(operand));
      if (sends) {
        sent.add(operand, program_.buffer(operand.buffer), contents(operand.buffer));
        XRUN_TRY(check_work());
      }
    }
    XRUN_TRY(check_apart(touches_));
  }
  sent.end();
  for (const Instruction& member : members) {
    XRUN_TRY(receive(member, sent));
  }
  if (sent.left() > 0) {
    return error_of_left_block(members, sent);
  }
  for (const Instruction& member : members) {
    member_on_[static_cast<size_t>(member.device)] = -1;
  }
  return {};
}

// Returns the number of the member on a device in the exchange; -1 if there is none.
int32_t SymbolicState::member_on(int device) const {
  return inside(device, 0, program_.devices) ? member_on_[static_cast<size_t>(device)] : -1;
}

// Returns the error for a block that its device does not receive. REQUIRES: there is such a block.
Error SymbolicState::error_of_left_block(std::span<const Instruction> members, SentBlocks& sent) {
  for (const Instruction& receiver : members) {
    XRUN_TRY(check_work());
    sent.restart();
    for (const Operand& operand : receiver.operands) {
      for (int k = 0; k < operand.count && operand.role == Role::kReceived; ++k) {
        sent.next(static_cast<size_t>(member_on(operand.device(k))), receiver.device);
      }
    }
    for (size_t m = 0; m < members.size(); ++m) {
      if (sent.next(m, receiver.device).run != nullptr) {
        begin(members[m]);
        return at_fault("sends device {} a block that it does not receive", receiver.device);
      }
    }
  }
  return at_fault("is in an exchange that sends blocks to devices outside of it");
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
  const Bytes bytes = pairs_bytes(module_, buffer.param);
  bool whole = operand.bytes == bytes;
  for (int k = 0; whole && operand.role == Role::kSent && k < (operand.step == 0 ? 1 : operand.count); ++k) {
    const Bytes begin = operand.place(k);
    contents(buffer.id).for_each(begin, begin + bytes, [&](const Contents::Piece& piece) {
      const bool all = piece.content.what == What::kPairs && piece.content.id == buffer.param.index &&
                       piece.origin % bytes == 0 && piece.end - piece.begin == bytes;
      whole = whole && (all || piece.content.what == What::kNothing);
    });
  }
  return whole ? Status()
               : at_fault("has a block of {} bytes in buffer {} ({}) that is not all pairs of one sender",
                          operand.bytes, buffer.id.index, buffer.name);
}

// Moves the contents of all blocks that a member receives.
Status SymbolicState::receive(const Instruction& receiver, SentBlocks& sent) {
  begin(receiver);
  sent.restart();
  for (const Operand& operand : receiver.operands) {
    Contents::Piece moved;
    const auto write = [&] { put(operand.buffer, moved.begin, moved.end - moved.begin, moved.content, moved.origin); };
    const int32_t pairs = weight_of_pairs(program_.buffer(operand.buffer));
    for (int k = 0; k < operand.count && operand.role == Role::kReceived; ++k) {
      const int from = operand.device(k);
      const int32_t member = member_on(from);
      const auto block = member < 0 ? SentBlocks::Block() : sent.next(static_cast<size_t>(member), receiver.device);
      if (block.run == nullptr) {
        return at_fault("receives a block that device {} does not send", from);
      }
      if (block.run->bytes != operand.bytes) {
        return at_fault("receives {} bytes of device {}, which sends {}", operand.bytes, from, block.run->bytes);
      }
      if (block.run->pairs != pairs) {
        return at_fault("receives pairs in buffer {} ({}), which has no pairs of this weight", operand.buffer.index,
                        program_.buffer(operand.buffer).name);
      }
      for (Contents::Piece piece : block.pieces) {
        piece.begin += operand.place(k);
        piece.end += operand.place(k);
        if (continues(moved, piece)) {
          moved.end = piece.end;
          continue;
        }
        write();
        moved = piece;
      }
      work_ += std::ssize(block.pieces);
    }
    write();
    XRUN_TRY(check_work());
  }
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
