// The stack machine that builds the values of a pickle; only parse_pickle (pickle.h) uses it.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/formats/pickle/pickle.h"
#include "runtime/formats/pickle/pickle_cursor.h"

namespace xrun::runtime {

class PickleMachine {
 public:
  PickleMachine(const PickleInput& input, Bytes offset, const PickleRules& rules);

  bool done() const { return done_; }
  Status step();          // executes one instruction; errors as those of parse_pickle
  Result<Pickle> take();  // REQUIRES: done

  // One instruction: its byte, its name in Python's pickletools, and the function for it; null if it would need other
  // code of Python.
  struct Instruction {
    uint8_t byte;
    std::string_view name;
    Status (PickleMachine::*run)();
  };

 private:
  // Values that the constructor makes, after kPickledNone.
  static constexpr PickleId kTrue = 1;
  static constexpr PickleId kFalse = 2;

  static const Instruction* find(uint8_t byte);
  static const Instruction kInstructions[];

  // Instructions, by family. `width`: bytes of the operand.
  Status protocol();
  Status frame();
  Status stop();

  template <PickleId id>
  Status constant();
  template <size_t width, bool is_signed>
  Status integer();
  template <size_t width>
  Status long_integer();
  Status integer_line();
  Status float_line();
  Status binary_float();

  template <PickleKind kind, PickleCoding coding, size_t width>
  Status string();
  Status string_line();
  Status text_line();

  template <PickleKind kind>
  Status empty();  // also for kTuple
  Status mark();
  template <PickleKind kind>
  Status from_mark();
  template <size_t count>
  Status short_tuple();
  Status append();
  Status append_from_mark();
  Status set_item();
  Status set_items_from_mark();
  Status add_to_set();

  Status pop();
  Status pop_mark();
  Status duplicate();
  template <size_t width>
  Status put();
  Status put_line();
  Status memoize();
  template <size_t width>
  Status get();
  Status get_line();

  Status global();
  Status stack_global();
  Status call();
  Status build();
  Status reference();
  Status reference_line();

  // Parts of instructions.
  Status push(PickleId id);
  Status push_new(PickleValue value);
  Status push_integer(std::string_view digits);
  Status push_global(std::string_view module, std::string_view name);
  Result<PickleId> pop_value();
  Result<std::vector<PickleId>> pop_to_mark();
  Result<std::string> pop_name();
  Result<PickleId> top();
  Status add(PickleId to, const std::vector<PickleId>& items, PickleKind kind);
  Status store(uint64_t key);
  Status fetch(uint64_t key);
  Result<uint64_t> memo_key();  // from a line
  Result<uint64_t> byte_at(Bytes offset) const;
  Status spend(size_t bytes);

  size_t above_mark() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  Error damaged(std::string_view why) const;    // XG0412
  Error not_plain(std::string_view why) const;  // XG0407

  const PickleInput& input_;
  const PickleRules& rules_;
  PickleCursor cursor_;
  Bytes at_ = 0;  // offset of the current instruction
  std::string_view instruction_ = "";
  bool done_ = false;
  Bytes spent_ = 0;
  std::vector<PickleValue> values_;
  std::vector<PickleId> stack_;
  std::vector<size_t> marks_;  // sizes of the stack when the marks were pushed
  std::unordered_map<uint64_t, PickleId> memo_;
};

}  // namespace xrun::runtime
