// A PTX module after parsing: kernels with their statements, and variables with their addresses.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "tests/support/ptx/instruction.h"

namespace xrun::ptx {

// Each state space has a range of generic addresses of its own. Addresses of `.shared` are offsets in its range, so
// they fit into 32 bits; those of the other spaces are generic ones.
inline constexpr uint64_t kGlobalBase = uint64_t{1} << 40;
inline constexpr uint64_t kLocalBase = uint64_t{0x7b} << 40;   // each thread has its own memory here
inline constexpr uint64_t kModuleBase = uint64_t{0x7c} << 40;  // variables of modules, `.global` and `.const`
inline constexpr uint64_t kParamBase = uint64_t{0x7d} << 40;
inline constexpr uint64_t kSharedBase = uint64_t{0x7e} << 40;
inline constexpr uint64_t kSharedStart = 1024;  // offset of the first variable; smaller ones are faults

enum class Space { kGeneric, kParam, kShared, kGlobal, kConst, kLocal };

enum class TypeKind : uint8_t { kUnsigned, kSigned, kBits, kFloat, kBfloat, kPredicate, kHalves, kE4m3, kE5m2, kTf32 };

// A scalar type: `.u32`, `.s64`, `.b16`, `.f32`, `.pred`; or a pair: `.bf16x2` (kBfloat with 32 bits), `.f16x2`
// (kHalves), `.e4m3x2` (kE4m3 with 16 bits).
struct Type {
  TypeKind kind = TypeKind::kBits;
  int bits = 0;

  bool is_signed() const { return kind == TypeKind::kSigned; }
  bool is_float() const { return kind == TypeKind::kFloat || kind == TypeKind::kBfloat || kind >= TypeKind::kHalves; }
  bool operator==(const Type&) const = default;
};

// Returns whether `name` ("u32", without dot) is a type, and which.
bool find_type(std::string_view name, Type& type);

// The number of a target: 90 of `sm_90` and `sm_90a`; 0 for other texts.
int target_number(std::string_view target);

struct Variable {
  std::string name;
  Space space = Space::kGlobal;
  uint64_t bytes = 0;  // 0: an `extern` array that takes the dynamic shared memory
  uint64_t align = 1;
  uint64_t address = 0;  // in its space; for a parameter, from kParamBase on
  std::vector<std::byte> initial;
};

struct Operand {
  enum class Kind { kName, kInteger, kFloat, kMemory, kVector, kPair, kSink };
  Kind kind = Kind::kSink;
  std::string_view name;       // kName and kMemory: a register, variable or label; empty: an absolute address
  uint64_t bits = 0;           // kInteger, kFloat; the offset of kMemory and kName
  int float_bits = 0;          // kFloat
  bool negated = false;        // `!%p1`
  std::vector<Operand> parts;  // kVector, kPair
};

struct Statement {
  std::string_view text;                // opcode with modifiers
  std::vector<std::string_view> words;  // the opcode and its modifiers
  std::string_view guard;               // name of the guard's register; empty without guard
  bool guard_negated = false;
  std::vector<Operand> operands;
  std::string_view whole;  // the text of the statement, for messages
  int line = 0;
  int source_file = 0;
  int source_line = 0;
  int scope = 0;  // index into Kernel::scopes
};

// `.reg .b32 %r<766>` declares a family of 766 registers; a single register has the count 0.
struct Registers {
  Type type;
  uint64_t count = 0;
};

// A block in braces, with the registers that are declared in it.
struct Scope {
  int outer = -1;
  std::map<std::string_view, Registers> registers;
};

struct Kernel {
  std::string name;
  int line = 0;
  std::vector<Variable> parameters;
  uint64_t parameter_bytes = 0;
  std::array<uint32_t, 3> most_threads{};  // `.maxntid`; zero without it
  bool exact_threads = false;              // `.reqntid`
  std::vector<Variable> shared;            // in the order of the text, with those of the module
  uint64_t shared_bytes = 0;               // static shared memory without our gaps
  std::vector<Variable> local;             // arrays that each thread has for itself
  uint64_t local_bytes = 0;                // likewise
  std::vector<Scope> scopes;
  std::vector<Statement> statements;
  std::map<std::string_view, size_t> labels;                              // index of the next statement
  std::map<std::string_view, std::vector<std::string_view>> label_lists;  // `.branchtargets`

  std::vector<Instruction> code;              // one for each statement, then the end of the kernel
  std::vector<std::vector<uint32_t>> tables;  // targets of `brx.idx`
  std::vector<Constant> constants;            // registers with values that are known before the start
  uint32_t registers = 0;                     // count of registers, with those of constants
  std::vector<std::string> names;             // names of the registers for messages
};

struct Module {
  std::string text;  // statements refer to it, so a Module is not copied
  std::string target;
  std::map<uint64_t, std::string> files;  // names of sources by number
  std::vector<Variable> variables;        // `.global` and `.const`
  std::vector<Kernel> kernels;

  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const Kernel* find(std::string_view name) const;
  // The place of a statement in the kernel's source, "product.cu:27"; empty without `.loc`.
  std::string source_of(const Statement& statement) const;
};

// Parses a text of PTX and decodes its kernels. Errors: faults of the text, and instructions that the machine does not
// execute, with their line and name. The time and memory that a text takes are linear in its size; arrays of it have at
// most 64 MiB together.
Result<std::unique_ptr<const Module>> load_module(std::string text);

}  // namespace xrun::ptx
