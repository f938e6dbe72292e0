// Tests: tests/planner/verify/symbolic_run_test.cpp
#include "planner/verify/symbolic_state.h"

#include <algorithm>

namespace xrun::planner {

SymbolicState::SymbolicState(const Program& program, const Module& module)
    : program_(program),
      module_(module),
      graph_(module.graph),
      contents_(program.buffers.size()),
      member_on_(static_cast<size_t>(program.devices), -1) {}

void SymbolicState::begin(const Instruction& one) {
  one_ = &one;
  at_ = 0;
  touches_.clear();
}

Bytes SymbolicState::slice_of(BufferId scratch) const {
  return program_.buffer(scratch).bytes / program_.threads[static_cast<size_t>(one_->device)];
}

Contents::Piece SymbolicState::piece_at(BufferId id, Bytes begin, Bytes bytes) const {
  Contents::Piece all;
  contents(id).for_each(begin, begin + bytes, [&](const Contents::Piece& piece) {
    all = piece.begin == begin && piece.end == begin + bytes ? piece : Contents::Piece();
  });
  return all;
}

Result<const Operand*> SymbolicState::next(const Operand& wanted) {
  if (!next_is(wanted.role)) {
    return at_fault("has {} where its operand {} is its {}",
                    at_ < one_->operands.size() ? name_of(one_->operands[at_].role) : "nothing", at_,
                    name_of(wanted.role));
  }
  const Operand& has = one_->operands[at_++];
  const bool steps = has.by != By::kNothing || has.role == Role::kDx;
  const bool same = has.access == wanted.access && has.by == wanted.by && has.node == wanted.node &&
                    has.param == wanted.param && has.index == wanted.index && (steps || has.step == 0);
  return same ? Result<const Operand*>(&has) : at_fault("has a wrong operand {} ({})", at_ - 1, name_of(has.role));
}

Status SymbolicState::take(const Operand& wanted, const Content& content, std::span<const Segment> segments) {
  XRUN_ASSIGN(const Operand* has, next(wanted));
  XRUN_TRY(touch(*has, has->offset, has->bytes, has->access != Access::kRead));
  // The runtime finds the sums of a tensor by their place among all sums.
  if (content.what == What::kNorms && has->offset != segments.front().origin) {
    return at_fault("has sums of squares at byte {} of buffer {} ({}) instead of {}", has->offset, has->buffer.index,
                    program_.buffer(has->buffer).name, segments.front().origin);
  }
  const Bytes unit =
      content.what == What::kNorms ? static_cast<Bytes>(sizeof(double)) : alignment_of(segments.front().bytes);
  XRUN_TRY(check_aligned(*has, unit));
  Bytes place = has->offset;
  for (const Segment& segment : segments) {
    if (place + segment.bytes > has->offset + has->bytes) {
      break;
    }
    if (has->access != Access::kWrite) {
      XRUN_TRY(need(has->buffer, place, segment.bytes, content, segment.origin));
    } else {
      put(has->buffer, place, segment.bytes, content, segment.origin);
    }
    place += segment.bytes;
  }
  Bytes bytes = 0;
  for (const Segment& segment : segments) {
    bytes += segment.bytes;
  }
  return bytes == has->bytes && has->step == 0
             ? Status()
             : at_fault("has an operand {} ({}) of {} bytes for {} of {}", at_ - 1, name_of(has->role), has->bytes,
                        describe(content, program_, graph_), bytes);
}

Status SymbolicState::take_kept(const Operand& wanted, Content content) {
  XRUN_ASSIGN(const Operand* has, next(wanted));
  const Buffer& buffer = program_.buffer(has->buffer);
  if (has->offset != 0 || has->bytes != buffer.bytes) {
    return at_fault("has a part of buffer {} ({}) as its operand {} ({})", buffer.id.index, buffer.name, at_ - 1,
                    name_of(has->role));
  }
  const bool changes = has->access != Access::kRead;
  XRUN_TRY(touch(*has, 0, buffer.bytes, changes));
  XRUN_TRY(need(buffer.id, 0, buffer.bytes, content, 0));
  if (changes) {
    content.fresh = true;
    put(buffer.id, 0, buffer.bytes, content, 0);
  }
  return {};
}

Status SymbolicState::take_scratch(Bytes least, bool by_worker) {
  XRUN_ASSIGN(const Operand* has,
              next({.role = Role::kScratch, .access = Access::kWrite, .by = by_worker ? By::kWorker : By::kNothing}));
  const Buffer& buffer = program_.buffer(has->buffer);
  if (buffer.purpose != (by_worker ? Purpose::kScratch : Purpose::kHeadScratch)) {
    return at_fault("cannot work in buffer {} ({})", buffer.id.index, buffer.name);
  }
  if (by_worker && (has->step != slice_of(buffer.id) || has->offset + has->bytes > has->step)) {
    return at_fault("has scratch memory outside of the slices of buffer {} ({})", buffer.id.index, buffer.name);
  }
  if (has->bytes < least) {
    return at_fault("has {} of {} bytes of scratch for a head pass", has->bytes, least);
  }
  XRUN_TRY(check_aligned(*has, kAlignment));
  const Bytes begin = by_worker ? 0 : has->offset;
  const Bytes bytes = by_worker ? buffer.bytes : has->bytes;
  XRUN_TRY(touch(*has, begin, bytes, true));
  put(buffer.id, begin, bytes, {}, 0);
  return {};
}

Status SymbolicState::check_aligned(const Operand& operand, Bytes unit) const {
  return operand.offset % unit == 0 && operand.step % unit == 0
             ? Status()
             : at_fault("has an operand {} ({}) that does not begin at a multiple of {} bytes", at_ - 1,
                        name_of(operand.role), unit);
}

Error SymbolicState::lacks(BufferId id, const Contents::Piece& found, const Content& wanted) const {
  const std::string has = found.content == wanted ? "other parts of it" : describe(found.content, program_, graph_);
  const std::string place = one_ == nullptr ? std::string("at the end of the step")
                                            : fmt::format("instruction {} ({}):", one_->id.index, name_of(one_->kind));
  return wrong("{} bytes {} to {} of buffer {} ({}) lack {}; they hold {}", place, found.begin, found.end, id.index,
               program_.buffer(id).name, describe(wanted, program_, graph_), has);
}

Status SymbolicState::need(BufferId id, Bytes begin, Bytes bytes, const Content& content, Bytes origin) const {
  const auto found = contents(id).lacks(begin, begin + bytes, content, origin);
  return found.has_value() ? lacks(id, *found, content) : Status();
}

void SymbolicState::put(BufferId id, Bytes begin, Bytes bytes, const Content& content, Bytes origin) {
  contents(id).set(begin, begin + bytes, content, origin);
}

Status SymbolicState::touch(const Operand& operand, Bytes begin, Bytes bytes, bool writes, int32_t tag) {
  const Buffer& buffer = program_.buffer(operand.buffer);
  // Inputs are read from the slot of the ring that the step uses.
  const bool input = buffer.purpose == Purpose::kInput;
  const Bytes most = !input ? buffer.bytes : buffer.ring == 0 ? bytes_of(buffer.value, program_.batch) : 0;
  if (begin < 0 || bytes < 0 || begin > most || bytes > most - begin) {
    return at_fault("accesses bytes {} to {} of buffer {} ({}), which has {}", begin, begin + bytes, buffer.id.index,
                    buffer.name, most);
  }
  touches_.push_back({operand.buffer, begin, begin + bytes, writes, tag});
  return {};
}

Status SymbolicState::check_apart(std::vector<Touch>& touches) const {
  const auto order = [](const Touch& touch) { return std::tuple(touch.buffer, touch.begin, touch.end, touch.tag); };
  std::ranges::sort(touches, {}, order);
  // The range so far that reaches farthest, among those that are only read and among those that are written.
  const Touch* read = nullptr;
  const Touch* wrote = nullptr;
  for (const Touch& touch : touches) {
    if (touch.begin == touch.end) {
      continue;
    }
    for (const Touch* before : {read, wrote}) {
      const bool meet = before != nullptr && before->buffer == touch.buffer && before->end > touch.begin;
      const bool same = meet && touch.tag >= 0 && order(*before) == order(touch);
      if (meet && !same && (touch.writes || before->writes)) {
        return at_fault("writes bytes {} to {} of buffer {} ({}), which it also accesses otherwise", touch.begin,
                        std::min(touch.end, before->end), touch.buffer.index, program_.buffer(touch.buffer).name);
      }
    }
    const auto farther = [&](const Touch* before) {
      return before == nullptr || before->buffer != touch.buffer || before->end < touch.end;
    };
    Touch const*& last = touch.writes ? wrote : read;
    last = farther(last) ? &touch : last;
  }
  return {};
}

Status SymbolicState::end() {
  if (at_ < one_->operands.size()) {
    return at_fault("has an operand {} ({}) too many", at_, name_of(one_->operands[at_].role));
  }
  return check_apart(touches_);
}

}  // namespace xrun::planner
