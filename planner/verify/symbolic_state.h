// The state of a symbolic run (planner/verify/symbolic_run.h): the contents of all buffers, and the instruction that
// runs, with functions that take its operands one after the other.
#pragma once

#include <algorithm>
#include <span>
#include <tuple>
#include <vector>

#include "graph/layouts/norm_layout.h"
#include "planner/verify/contents.h"
#include "planner/verify/verify_parts.h"

namespace xrun::planner {

class SentBlocks;

class SymbolicState {
 protected:
  // A range of the tensor of a symbol, in bytes.
  struct Segment {
    Bytes origin = 0;
    Bytes bytes = 0;
  };
  // Bytes that an instruction or a node accesses. `tag` is the number of the value that they belong to.
  struct Touch {
    BufferId buffer;
    Bytes begin = 0;
    Bytes end = 0;
    bool writes = false;
    int32_t tag = -1;
  };

  SymbolicState(const Program& program, const Module& module);

  template <typename... Args>
  Error at_fault(fmt::format_string<Args...> what, Args&&... args) const {
    return wrong("instruction {} ({}) {}", one_->id.index, name_of(one_->kind),
                 fmt::format(what, std::forward<Args>(args)...));
  }
  void begin(const Instruction& one);
  bool next_is(Role role) const { return at_ < one_->operands.size() && one_->operands[at_].role == role; }
  // Takes the next operand, which must equal `wanted` in role, access, by, node, param and index.
  Result<const Operand*> next(const Operand& wanted);
  // Takes the next operand, whose bytes must hold the segments of a symbol (a read), or hold them afterwards (a write).
  Status take(const Operand& wanted, const Content& content, std::span<const Segment> segments);
  Status take(const Operand& wanted, const Content& content, Segment segment) {
    return take(wanted, content, std::span(&segment, 1));
  }
  // Takes the next operand, which must be a whole persistent buffer with these contents. An update makes them new.
  Status take_kept(const Operand& wanted, Content content);
  // Takes scratch memory of at least `least` bytes: a part of a buffer of head passes or, for passes of a stage and
  // updates, of the slice of each worker.
  Status take_scratch(Bytes least, bool by_worker);
  // Returns the largest power of two, at most kAlignment, that divides a number of bytes. Parts of this size that
  // follow one another from the start of a buffer have this alignment.
  static Bytes alignment_of(Bytes bytes) { return bytes == 0 ? 1 : std::min<Bytes>(bytes & -bytes, kAlignment); }
  // Checks that an operand begins at a multiple of `unit` bytes, and so does each of its parts that `step` moves.
  Status check_aligned(const Operand& operand, Bytes unit) const;
  // Checks that there are no more operands, and that no bytes are written that another operand accesses.
  Status end();

  // Checks that bytes hold those of `content` from `origin` on.
  Status need(BufferId buffer, Bytes begin, Bytes bytes, const Content& content, Bytes origin) const;
  void put(BufferId buffer, Bytes begin, Bytes bytes, const Content& content, Bytes origin);
  // Returns the symbol that all of these bytes hold, as one piece; kNothing if they hold several.
  Contents::Piece piece_at(BufferId buffer, Bytes begin, Bytes bytes) const;
  // Records an access. Errors: the bytes are outside of the buffer or, for an input, of its rows in a slot of the ring.
  Status touch(const Operand& operand, Bytes begin, Bytes bytes, bool writes, int32_t tag = -1);
  Status check_apart(std::vector<Touch>& touches) const;
  Error lacks(BufferId buffer, const Contents::Piece& found, const Content& wanted) const;

  // Runs an exchange, whose members are `members`, or a copy: moves the contents of its blocks.
  Status exchange(std::span<const Instruction> members);
  Status copy();
  // Checks that exchanges and copies have not moved more pieces than can be verified in some seconds.
  Status check_work() const;

  const TensorType& type(ValueId value) const { return graph_.value(value).type; }
  Bytes bytes_of(ValueId value, int64_t rows) const { return type(value).bytes(rows, program_.norm_rows); }
  Bytes slice_of(BufferId scratch) const;  // bytes of the slice of a worker
  Contents& contents(BufferId buffer) { return contents_[static_cast<size_t>(buffer.index)]; }
  const Contents& contents(BufferId buffer) const { return contents_[static_cast<size_t>(buffer.index)]; }

  const Program& program_;
  const Module& module_;
  const Graph& graph_;
  std::vector<Contents> contents_;    // index: buffer
  const Instruction* one_ = nullptr;  // the instruction that runs; null at the start and at the end
  size_t at_ = 0;                     // index of its next operand
  std::vector<Touch> touches_;        // accesses of the instruction, or of a node of a stage pass

 private:
  Status check_block(const Operand& operand) const;
  Status receive(const Instruction& receiver, SentBlocks& sent);
  int32_t member_on(int device) const;
  Error error_of_left_block(std::span<const Instruction> members, SentBlocks& sent);

  int64_t work_ = 0;                // number of blocks and pieces that exchanges and copies have moved
  std::vector<int32_t> member_on_;  // index: device; the number of its member in the exchange, or -1
};

}  // namespace xrun::planner
