// Tests: tests/runtime/formats/pickle/pickle_test.cpp
#include "runtime/formats/pickle/pickle_machine.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"

namespace xrun::runtime {
namespace {

constexpr int kLastProtocol = 5;
constexpr size_t kMemoEntry = 48;  // bytes of an entry of the memo with its part of the hash table

}  // namespace

PickleMachine::PickleMachine(const PickleInput& input, Bytes offset, const PickleRules& rules)
    : input_(input), rules_(rules), cursor_(input, offset), at_(offset) {
  values_.push_back({.kind = PickleKind::kNone, .at = offset});
  values_.push_back({.kind = PickleKind::kBool, .at = offset, .number = 1});
  values_.push_back({.kind = PickleKind::kBool, .at = offset, .number = 0});
}

Status PickleMachine::step() {
  at_ = cursor_.offset();
  XRUN_ASSIGN(const uint64_t byte, cursor_.number(1));
  const Instruction* const found = find(static_cast<uint8_t>(byte));
  if (found == nullptr) {
    return damaged(fmt::format("the byte 0x{:02x} is not an instruction of a pickle", byte));
  }
  instruction_ = found->name;
  if (found->run == nullptr) {
    return not_plain(fmt::format("uses the instruction {}, which needs other code of Python,", found->name));
  }
  return (this->*found->run)();
}

Result<Pickle> PickleMachine::take() { return Pickle(input_, std::move(values_), stack_.back(), cursor_.offset()); }

Error PickleMachine::damaged(std::string_view why) const { return damaged_pickle(input_.name(), at_, why); }

Error PickleMachine::not_plain(std::string_view why) const {
  return content_error("XG0407", {"{} {} at offset {}", input_.name(), why, at_}, std::string(rules_.help));
}

Status PickleMachine::spend(size_t bytes) {
  spent_ += static_cast<Bytes>(bytes);
  if (spent_ > rules_.most_memory) {
    return damaged(fmt::format("its values take more than {} of memory", format_bytes(rules_.most_memory)));
  }
  return {};
}

Result<uint64_t> PickleMachine::byte_at(Bytes offset) const {
  std::array<std::byte, 1> byte{};
  XRUN_TRY(input_.read(offset, byte));
  return std::to_integer<uint64_t>(byte[0]);
}

// ---- stack and memo -------------------------------------------------------------------------------------------

Status PickleMachine::push(PickleId id) {
  XRUN_TRY(spend(sizeof id));
  stack_.push_back(id);
  return {};
}

Status PickleMachine::push_new(PickleValue value) {
  XRUN_TRY(spend(sizeof value + value.items.size() * sizeof(PickleId)));
  value.at = at_;
  values_.push_back(std::move(value));
  return push(static_cast<PickleId>(values_.size() - 1));
}

Result<PickleId> PickleMachine::top() {
  if (above_mark() == 0) {
    return damaged(fmt::format("{} finds no value on the stack", instruction_));
  }
  return stack_.back();
}

Result<PickleId> PickleMachine::pop_value() {
  XRUN_ASSIGN(const PickleId id, top());
  stack_.pop_back();
  spent_ -= sizeof id;
  return id;
}

Result<std::vector<PickleId>> PickleMachine::pop_to_mark() {
  if (marks_.empty()) {
    return damaged(fmt::format("{} finds no mark on the stack", instruction_));
  }
  const auto first = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
  std::vector<PickleId> popped(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  spent_ -= static_cast<Bytes>(sizeof(size_t) + popped.size() * sizeof(PickleId));
  return popped;
}

Status PickleMachine::mark() {
  XRUN_TRY(spend(sizeof(size_t)));
  marks_.push_back(stack_.size());
  return {};
}

// POP also removes a mark, if that is on top.
Status PickleMachine::pop() {
  if (!marks_.empty() && above_mark() == 0) {
    return pop_mark();
  }
  XRUN_ASSIGN([[maybe_unused]] const PickleId id, pop_value());
  return {};
}

Status PickleMachine::pop_mark() {
  XRUN_ASSIGN([[maybe_unused]] const auto popped, pop_to_mark());
  return {};
}

Status PickleMachine::duplicate() {
  XRUN_ASSIGN(const PickleId id, top());
  return push(id);
}

Status PickleMachine::store(uint64_t key) {
  XRUN_ASSIGN(const PickleId id, top());
  if (memo_.insert_or_assign(key, id).second) {
    XRUN_TRY(spend(kMemoEntry));
  }
  return {};
}

Status PickleMachine::fetch(uint64_t key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) {
    return damaged(fmt::format("the memo has no value {}", key));
  }
  return push(found->second);
}

Status PickleMachine::memoize() { return store(memo_.size()); }

// ---- frame ----------------------------------------------------------------------------------------------------

Status PickleMachine::protocol() {
  XRUN_ASSIGN(const uint64_t version, cursor_.number(1));
  return version <= kLastProtocol
             ? Status()
             : not_plain(fmt::format("has protocol {}, but the last known one is {},", version, kLastProtocol));
}

// Frames only help readers of streams.
Status PickleMachine::frame() {
  XRUN_ASSIGN(const uint64_t size, cursor_.number(8));
  const auto left = static_cast<uint64_t>(input_.bytes() - cursor_.offset());
  return size <= left ? Status() : damaged(fmt::format("a frame has {} bytes, but the file ends after {}", size, left));
}

Status PickleMachine::stop() {
  if (stack_.size() != 1 || !marks_.empty()) {
    return damaged(fmt::format("the pickle ends with {} values and {} marks on the stack, instead of one value",
                               stack_.size(), marks_.size()));
  }
  done_ = true;
  return {};
}

// ---- containers -----------------------------------------------------------------------------------------------

// Adds items to a container, or to an object that a call makes, which may be of any type.
Status PickleMachine::add(PickleId to, const std::vector<PickleId>& items, PickleKind kind) {
  PickleValue& target = values_[to];
  if (target.kind != kind && target.kind != PickleKind::kCall) {
    return damaged(fmt::format("{} adds to {}", instruction_, name_of(target.kind)));
  }
  if (kind == PickleKind::kDict && items.size() % 2 != 0) {
    return damaged(fmt::format("{} has a key without a value", instruction_));
  }
  XRUN_TRY(spend(2 * items.size() * sizeof(PickleId)));  // vectors grow by doubling
  target.items.insert(target.items.end(), items.begin(), items.end());
  return {};
}

Status PickleMachine::append() {
  XRUN_ASSIGN(const PickleId item, pop_value());
  XRUN_ASSIGN(const PickleId list, top());
  return add(list, {item}, PickleKind::kList);
}

Status PickleMachine::append_from_mark() {
  XRUN_ASSIGN(const auto items, pop_to_mark());
  XRUN_ASSIGN(const PickleId list, top());
  return add(list, items, PickleKind::kList);
}

Status PickleMachine::set_item() {
  XRUN_ASSIGN(const PickleId value, pop_value());
  XRUN_ASSIGN(const PickleId key, pop_value());
  XRUN_ASSIGN(const PickleId dict, top());
  return add(dict, {key, value}, PickleKind::kDict);
}

Status PickleMachine::set_items_from_mark() {
  XRUN_ASSIGN(const auto items, pop_to_mark());
  XRUN_ASSIGN(const PickleId dict, top());
  return add(dict, items, PickleKind::kDict);
}

Status PickleMachine::add_to_set() {
  XRUN_ASSIGN(const auto items, pop_to_mark());
  XRUN_ASSIGN(const PickleId set, top());
  return add(set, items, PickleKind::kSet);
}

// ---- functions, calls and objects -----------------------------------------------------------------------------

Status PickleMachine::push_global(std::string_view module, std::string_view name) {
  const auto found = std::ranges::find_if(
      rules_.globals, [&](const PickleGlobal& one) { return one.module == module && one.name == name; });
  if (found == rules_.globals.end()) {
    return not_plain(fmt::format("names the function `{}`", printable_line(fmt::format("{}.{}", module, name))));
  }
  return push_new({.kind = PickleKind::kGlobal, .number = found->meaning});
}

Status PickleMachine::global() {
  XRUN_ASSIGN(const std::string module, cursor_.line("a function's module"));
  XRUN_ASSIGN(const std::string name, cursor_.line("a function's name"));
  return push_global(module, name);
}

Result<std::string> PickleMachine::pop_name() {
  XRUN_ASSIGN(const PickleId id, pop_value());
  const PickleValue& value = values_[id];
  if (value.kind != PickleKind::kText && value.kind != PickleKind::kString) {
    return damaged(fmt::format("{} has {} for a name", instruction_, name_of(value.kind)));
  }
  return read_pickle_text(input_, value.string, PickleCursor::kMostLine);
}

Status PickleMachine::stack_global() {
  XRUN_ASSIGN(const std::string name, pop_name());
  XRUN_ASSIGN(const std::string module, pop_name());
  return push_global(module, name);
}

// REDUCE calls a function, NEWOBJ makes an object of a type; both have a tuple of arguments.
Status PickleMachine::call() {
  XRUN_ASSIGN(const PickleId arguments, pop_value());
  XRUN_ASSIGN(const PickleId function, pop_value());
  if (values_[function].kind != PickleKind::kGlobal || values_[arguments].kind != PickleKind::kTuple) {
    return not_plain(
        fmt::format("calls {} with {}", name_of(values_[function].kind), name_of(values_[arguments].kind)));
  }
  return push_new({.kind = PickleKind::kCall, .arguments = arguments, .number = values_[function].number});
}

Status PickleMachine::build() {
  XRUN_ASSIGN(const PickleId state, pop_value());
  XRUN_ASSIGN(const PickleId object, top());
  PickleValue& value = values_[object];
  if (value.kind != PickleKind::kCall || value.state != kPickledNone) {
    return not_plain(value.kind == PickleKind::kCall ? "sets the state of an object twice"
                                                     : fmt::format("sets the state of {}", name_of(value.kind)));
  }
  value.state = state;
  return {};
}

Status PickleMachine::reference() {
  XRUN_ASSIGN(const PickleId id, pop_value());
  return rules_.references ? push_new({.kind = PickleKind::kReference, .items = {id}})
                           : not_plain("refers to an object outside of the file");
}

// ---- the table ------------------------------------------------------------------------------------------------

const PickleMachine::Instruction* PickleMachine::find(uint8_t byte) {
  static const auto table = [] {
    std::array<const Instruction*, 256> made{};
    for (const Instruction* one = kInstructions; one->byte != 0; ++one) {
      made[one->byte] = one;
    }
    return made;
  }();
  return table[byte];
}

}  // namespace xrun::runtime
