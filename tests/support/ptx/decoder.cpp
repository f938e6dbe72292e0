// Tests: tests/ptx/parser_test.cpp
#include "tests/support/ptx/decoder.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/special_registers.h"
#include "tests/support/ptx/tokens.h"

namespace xrun::ptx {

namespace {

const Operand kNone;

}  // namespace

const Operand& Decoder::operand(size_t index) const {
  return index < statement_->operands.size() ? statement_->operands[index] : kNone;
}

bool Decoder::take(std::string_view modifier) {
  for (size_t i = 1; i < statement_->words.size(); ++i) {
    if (!taken_[i] && statement_->words[i] == modifier) {
      taken_[i] = true;
      return true;
    }
  }
  return false;
}

Type Decoder::take_type() {
  Type type;
  for (size_t i = 1; i < statement_->words.size(); ++i) {
    if (!taken_[i] && find_type(statement_->words[i], type)) {
      taken_[i] = true;
      return type;
    }
  }
  fail("the instruction has no type that the machine knows");
  return {TypeKind::kBits, 32};
}

Space Decoder::take_space() {
  if (take("global")) {
    return Space::kGlobal;
  }
  if (take("shared") || take("shared::cta")) {
    return Space::kShared;
  }
  if (take("param") || take("param::entry")) {
    return Space::kParam;
  }
  if (take("local")) {
    return Space::kLocal;
  }
  return take("const") ? Space::kConst : Space::kGeneric;
}

bool Decoder::take_block_scope() {
  if (take("cta")) {
    return true;
  }
  return take("gpu") || take("sys") ? false : false;
}

uint32_t Decoder::constant_register(Constant::Kind kind, uint64_t value) {
  const auto [at, fresh] = constants_.try_emplace({kind, value}, kernel_.registers);
  if (fresh) {
    kernel_.constants.push_back({kind, kernel_.registers++, value});
    kernel_.names.emplace_back("a constant");
  }
  return at->second;
}

std::optional<uint32_t> Decoder::find_register(std::string_view name, Type& type) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  uint64_t number = 0;
  std::from_chars(name.data() + digits, name.data() + name.size(), number);
  for (int scope = statement_->scope; scope >= 0; scope = kernel_.scopes[static_cast<size_t>(scope)].outer) {
    const auto known = registers_.find({scope, name});
    if (known != registers_.end()) {
      type = known->second.second;
      return known->second.first;
    }
    const auto& declared = kernel_.scopes[static_cast<size_t>(scope)].registers;
    const auto single = declared.find(name);
    const auto family = declared.find(name.substr(0, digits));
    const bool is_single = single != declared.end() && single->second.count == 0;
    const bool is_member = digits < name.size() && family != declared.end() && number < family->second.count;
    if (is_single || is_member) {
      type = is_single ? single->second.type : family->second.type;
      registers_[{scope, name}] = {kernel_.registers, type};
      kernel_.names.emplace_back(name);
      return kernel_.registers++;
    }
  }
  return std::nullopt;
}

uint32_t Decoder::register_of(const Operand& operand, Type type, bool exact) {
  switch (operand.kind) {
    case Operand::Kind::kInteger:
      if (type.is_float()) {
        fail("an operand is an integer instead of a floating-point number");
      }
      return constant_register(Constant::Kind::kValue,
                               type.bits == 1 ? static_cast<uint64_t>(operand.bits != 0) : operand.bits);
    case Operand::Kind::kFloat: {
      const bool narrow = type.bits == 32 && operand.float_bits == 64;
      const auto value = static_cast<float>(std::bit_cast<double>(operand.bits));
      if (type.bits < 32) {
        fail("an operand is a floating-point number instead of 16 bits");
      }
      return constant_register(Constant::Kind::kValue, narrow ? std::bit_cast<uint32_t>(value) : operand.bits);
    }
    case Operand::Kind::kName:
      break;
    default:
      fail("an operand is missing, or is not a register or constant");
      return 0;
  }
  if (const auto found = find_special(operand.name)) {
    return constant_register(found->kind, found->value);
  }
  Type declared;
  if (const auto found = find_register(operand.name, declared)) {
    if ((type.bits == 1) != (declared.bits == 1) || (exact && type.bits != declared.bits) ||
        (!exact && type.bits > declared.bits)) {
      fail(fmt::format("`{}` has {} bits, and the instruction needs {}", operand.name, declared.bits, type.bits));
    }
    return *found;
  }
  if (const Variable* const variable = find_variable(operand.name)) {
    return constant_register(Constant::Kind::kValue, variable->address + operand.bits);
  }
  fail(fmt::format("`{}` is not declared", operand.name),
       operand.name.starts_with('%') ? "the machine has no clocks and no other special registers" : "");
  return 0;
}

void Decoder::destination(const Operand& operand, Type type, bool exact) {
  if (in.destinations >= in.reg.size() || in.sources != 0) {
    fail("the instruction has too many operands");
    return;
  }
  if (operand.kind == Operand::Kind::kSink) {
    in.reg[in.destinations++] = 0;  // register 0 is written and never read
    return;
  }
  Type declared;
  const auto found = operand.kind == Operand::Kind::kName ? find_register(operand.name, declared) : std::nullopt;
  if (!found) {
    fail(fmt::format("the result `{}` is not a register", operand.name));
    return;
  }
  in.reg[in.destinations++] = register_of(operand, type, exact);
}

void Decoder::source(const Operand& operand, Type type, bool exact) {
  const size_t place = size_t{in.destinations} + in.sources;
  if (place >= in.reg.size()) {
    fail("the instruction has too many operands");
    return;
  }
  in.reg[place] = register_of(operand, type, exact);
  ++in.sources;
}

void Decoder::constant_source(uint64_t value) {
  source(Operand{.kind = Operand::Kind::kInteger, .name = {}, .bits = value, .parts = {}}, {TypeKind::kBits, 64});
}

void Decoder::address(size_t index, Space space) {
  const Operand& memory = operand(index);
  if (memory.kind != Operand::Kind::kMemory) {
    fail("the address is not an operand in brackets");
    return;
  }
  if (memory.name.empty()) {
    constant_source(memory.bits);
    return;
  }
  if (const Variable* const variable = find_variable(memory.name)) {
    if (variable->space != space && !(space == Space::kGeneric && variable->space == Space::kGlobal)) {
      fail(fmt::format("`{}` is not in the state space of the instruction", memory.name));
    }
    constant_source(variable->address + memory.bits);
    return;
  }
  Type declared;
  const bool known = find_register(memory.name, declared).has_value();
  const bool narrow = known && declared.bits == 32 && space == Space::kShared;
  if (known && !narrow && declared.bits != 64) {
    fail(fmt::format("the address `{}` has {} bits", memory.name, declared.bits));
  }
  const Operand base{.kind = Operand::Kind::kName, .name = memory.name, .parts = {}};
  source(base, {TypeKind::kBits, narrow ? 32 : 64});
  in.offset = memory.bits;
}

uint64_t Decoder::constant(size_t index) {
  if (operand(index).kind != Operand::Kind::kInteger) {
    fail("an operand is not a constant integer");
  }
  return operand(index).bits;
}

uint32_t Decoder::label(std::string_view name) {
  const auto found = kernel_.labels.find(name);
  if (found == kernel_.labels.end()) {
    fail(fmt::format("the label `{}` does not exist", name));
    return 0;
  }
  return static_cast<uint32_t>(found->second);
}

uint32_t Decoder::table(size_t index) {
  const auto found = kernel_.label_lists.find(operand(index).name);
  if (found == kernel_.label_lists.end()) {
    fail(fmt::format("the list of labels `{}` does not exist", operand(index).name));
    return 0;
  }
  const auto [known, fresh] = tables_.try_emplace(found->first, static_cast<uint32_t>(kernel_.tables.size()));
  if (fresh) {
    std::vector<uint32_t> targets;
    for (const std::string_view name : found->second) {
      targets.push_back(label(name));
    }
    kernel_.tables.push_back(std::move(targets));
  }
  return known->second;
}

const Variable* Decoder::find_variable(std::string_view name) const {
  const std::vector<Variable>* const lists[] = {&kernel_.shared, &kernel_.local, &kernel_.parameters,
                                                &module_.variables};
  for (const std::vector<Variable>* const list : lists) {
    if (const auto found = std::ranges::find(*list, name, &Variable::name); found != list->end()) {
      return &*found;
    }
  }
  return nullptr;
}

void Decoder::expect_operands(size_t least, size_t most) {
  if (operands() < least || operands() > most) {
    fail(fmt::format("the instruction has {} operands", operands()));
  }
}

void Decoder::need_target(int least) {
  if (target_number(module_.target) < least) {
    fail(fmt::format("the target `{}` lacks the instruction; it needs `sm_{}`", module_.target, least));
  }
}

void Decoder::fail(std::string cause, std::string help) {
  if (!error_) {
    error_ = text_error(statement_->line, fmt::format("`{}`: {}", statement_->text, cause), std::move(help));
  }
}

Status Decoder::decode(const Statement& statement) {
  statement_ = &statement;
  in = {};
  taken_.assign(statement.words.size(), false);
  for (const std::string_view word : statement.words) {
    if (word == "approx" || (word == "full" && opcode() == "div")) {
      fail("approximate instructions are not executed, since their results differ between GPUs",
           "write the function with exactly rounded operations");
    }
  }
  const bool found = failed() || decode_moves(*this) || decode_integers(*this) || decode_bits(*this) ||
                     decode_halves(*this) || decode_floats(*this) || decode_comparisons(*this) ||
                     decode_conversions(*this) || decode_accesses(*this) || decode_atomics(*this) ||
                     decode_copies(*this) || decode_matrices(*this) || decode_products(*this) ||
                     decode_exchanges(*this) || decode_flow(*this);
  if (!found) {
    fail("the machine does not execute this instruction");
  }
  for (size_t i = 1; i < statement.words.size(); ++i) {
    if (!taken_[i]) {
      fail(fmt::format("the machine does not execute the modifier `.{}` here", statement.words[i]));
    }
  }
  if (in.run == nullptr && (in.flow == Flow::kNext || in.flow == Flow::kConverge)) {
    fail("the machine does not execute the instruction for this type");
  }
  static constexpr std::string_view kNegate[] = {"setp", "set", "vote", "bar", "barrier"};
  const bool negates = std::ranges::find(kNegate, opcode()) != std::end(kNegate);
  if (!negates && std::ranges::any_of(statement.operands, &Operand::negated)) {
    fail("the instruction cannot negate an operand");
  }
  if (!statement.guard.empty()) {
    const Operand guard{.kind = Operand::Kind::kName, .name = statement.guard, .parts = {}};
    in.guarded = true;
    in.guard_negated = statement.guard_negated;
    in.guard = register_of(guard, {TypeKind::kPredicate, 1}, true);
  }
  if (error_) {
    return *std::move(error_);
  }
  kernel_.code.push_back(in);
  return {};
}

Status Decoder::run() {
  kernel_.registers = 1;
  kernel_.names = {"_"};
  for (const Statement& statement : kernel_.statements) {
    XRUN_TRY(decode(statement));
  }
  Instruction end;
  end.flow = Flow::kExit;
  kernel_.code.push_back(end);
  return {};
}

Status decode(const Module& module, Kernel& kernel) { return Decoder(module, kernel).run(); }

}  // namespace xrun::ptx
