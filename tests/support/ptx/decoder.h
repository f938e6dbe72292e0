// Decodes statements to instructions: opcodes, modifiers, and operands as indices of registers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tests/support/ptx/ptx_module.h"

namespace xrun::ptx {

// Decodes one kernel at a time. The groups of instructions (groups.h) look at the statement, take the modifiers that
// they execute, name destinations before sources, and set `in.run`. A modifier that nobody took is an error.
class Decoder {
 public:
  Decoder(const Module& module, Kernel& kernel) : module_(module), kernel_(kernel) {}

  Status run();

  // The instruction that is being made.
  Instruction in;

  const Statement& statement() const { return *statement_; }
  std::string_view opcode() const { return statement_->words.front(); }
  size_t operands() const { return statement_->operands.size(); }
  const Operand& operand(size_t index) const;

  // Takes a modifier; returns whether the statement has it.
  bool take(std::string_view modifier);
  // Takes the next modifier that is a type. An instruction without one is an error.
  Type take_type();
  // Takes a state space, `.global` or `.shared::cta`; kGeneric without one.
  Space take_space();
  // Takes the scope of a fence or an atomic operation; returns whether it is the block (`.cta`).
  bool take_block_scope();

  void destination(const Operand& operand, Type type, bool exact = true);
  void destination(size_t index, Type type, bool exact = true) { destination(operand(index), type, exact); }
  void source(const Operand& operand, Type type, bool exact = true);
  void source(size_t index, Type type, bool exact = true) { source(operand(index), type, exact); }
  // The address of a memory operand: a source, and `in.offset`.
  void address(size_t index, Space space);
  // The constant integer operand of an instruction.
  uint64_t constant(size_t index);
  // The statement that follows a label.
  uint32_t label(std::string_view name);
  // The index in Kernel::tables of the list of labels that an operand names.
  uint32_t table(size_t index);
  // A source with the same value in all lanes.
  void constant_source(uint64_t value);
  const Variable* find_variable(std::string_view name) const;

  void expect_operands(size_t least, size_t most);
  // Refuses the instruction in a text for older GPUs: 89 for `sm_89`.
  void need_target(int least);
  void fail(std::string cause, std::string help = "");
  bool failed() const { return error_.has_value(); }

 private:
  Status decode(const Statement& statement);
  std::optional<uint32_t> find_register(std::string_view name, Type& type);
  uint32_t constant_register(Constant::Kind kind, uint64_t value);
  uint32_t register_of(const Operand& operand, Type type, bool exact);

  const Module& module_;
  Kernel& kernel_;
  const Statement* statement_ = nullptr;
  std::vector<bool> taken_;
  std::optional<Error> error_;
  std::map<std::pair<int, std::string_view>, std::pair<uint32_t, Type>> registers_;  // key: scope of the declaration
  std::map<std::pair<Constant::Kind, uint64_t>, uint32_t> constants_;
  std::map<std::string_view, uint32_t> tables_;
};

// Fills `code`, `constants` and `registers` of a kernel.
Status decode(const Module& module, Kernel& kernel);

}  // namespace xrun::ptx
