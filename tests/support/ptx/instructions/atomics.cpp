// Atomic operations on integers, and fences.
// Tests: tests/ptx/memory_test.cpp
#include <algorithm>

#include "tests/support/ptx/block.h"
#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"

namespace xrun::ptx {

namespace {

enum class Atomic : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor, kExchange, kCompare, kIncrement, kDecrement };

constexpr std::pair<std::string_view, Atomic> kAtomics[] = {
    {"add", Atomic::kAdd},       {"min", Atomic::kMin},      {"max", Atomic::kMax},       {"and", Atomic::kAnd},
    {"or", Atomic::kOr},         {"xor", Atomic::kXor},      {"exch", Atomic::kExchange}, {"cas", Atomic::kCompare},
    {"inc", Atomic::kIncrement}, {"dec", Atomic::kDecrement}};

// Bits of Instruction::extra above the operation.
constexpr int kSpaceShift = 8;
constexpr int kStrengthShift = 16;
constexpr uint64_t kAcquire = 1 << 24;
constexpr uint64_t kRelease = 1 << 25;

template <class T>
T updated(Atomic operation, T old, T a, T b) {
  switch (operation) {
    case Atomic::kAdd:
      return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(a));
    case Atomic::kMin:
      return std::min(old, a);
    case Atomic::kMax:
      return std::max(old, a);
    case Atomic::kAnd:
      return static_cast<T>(old & a);
    case Atomic::kOr:
      return static_cast<T>(old | a);
    case Atomic::kXor:
      return static_cast<T>(old ^ a);
    case Atomic::kExchange:
      return a;
    case Atomic::kCompare:
      return old == a ? b : old;
    case Atomic::kIncrement:
      return static_cast<T>(old >= a ? 0 : old + 1);
    case Atomic::kDecrement:
      return static_cast<T>(old == 0 || old > a ? a : old - 1);
  }
  return old;
}

template <class T>
void run_atomic(Warp& warp, const Instruction& in, uint32_t mask) {
  const auto operation = static_cast<Atomic>(in.extra & 0xff);
  const auto space = static_cast<Space>(in.extra >> kSpaceShift & 0xff);
  const auto strength = static_cast<Strength>(in.extra >> kStrengthShift & 0xff);
  const size_t first = in.destinations;
  Clocks& clocks = warp.block().clocks();
  const bool near = strength == Strength::kBlock;
  for_lanes(mask, [&](uint32_t lane) {
    const uint64_t address = warp[in.reg[first]].lane[lane] + in.offset;
    if ((in.extra & kRelease) != 0) {
      clocks.fence(warp.thread(lane), near);
    }
    std::byte* const bytes = warp.atomic(lane, address, sizeof(T), space, strength);
    if (bytes == nullptr) {
      return;
    }
    T old;
    std::memcpy(&old, bytes, sizeof(T));
    const T a = get<T>(warp[in.reg[first + 1]], lane);
    const T b = in.sources == 3 ? get<T>(warp[in.reg[first + 2]], lane) : T{0};
    const T value = updated(operation, old, a, b);
    std::memcpy(bytes, &value, sizeof(T));
    if (in.destinations == 1) {
      put(warp[in.reg[0]], lane, old);
    }
    if ((in.extra & kAcquire) != 0) {
      clocks.fence(warp.thread(lane), near);
    }
  });
}

void run_fence(Warp& warp, const Instruction& in, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) { warp.block().clocks().fence(warp.thread(lane), in.extra != 0); });
}

bool decode_fence(Decoder& at) {
  if (at.opcode() == "fence") {
    if (!at.take("sc") && !at.take("acq_rel")) {
      at.fail("only fences of memory are executed");
    }
    at.in.extra = at.take_block_scope() ? 1 : 0;
  } else {
    at.in.extra = at.take("cta") ? 1 : 0;
    if (at.in.extra == 0 && !at.take("gl") && !at.take("sys")) {
      at.fail("the scope is missing");
    }
  }
  at.expect_operands(0, 0);
  at.in.run = run_fence;
  return true;
}

}  // namespace

bool decode_atomics(Decoder& at) {
  if (at.opcode() == "fence" || at.opcode() == "membar") {
    return decode_fence(at);
  }
  const bool reduces = at.opcode() == "red";
  if (!reduces && at.opcode() != "atom") {
    return false;
  }
  const bool both = at.take("acq_rel");
  const bool acquires = both || at.take("acquire");
  const bool releases = both || at.take("release");
  at.take("relaxed");
  const bool near = at.take_block_scope();
  const Space space = at.take_space();
  const std::pair<std::string_view, Atomic>* operation = nullptr;
  for (const auto& entry : kAtomics) {
    if (operation == nullptr && at.take(entry.first)) {
      operation = &entry;
    }
  }
  for (const std::string_view word : at.statement().words) {
    Type found;
    if (find_type(word, found) && found.is_float()) {
      at.fail("atomic operations on floating-point numbers are not executed: their order changes the bits",
              "sum in a fixed order");
      return true;
    }
  }
  const Type type = at.take_type();
  if (operation == nullptr || type.bits < 32) {
    at.fail("the machine does not execute this atomic operation");
    return true;
  }
  const bool compares = operation->second == Atomic::kCompare;
  const bool counts = operation->second == Atomic::kIncrement || operation->second == Atomic::kDecrement;
  if ((counts && type != Type{TypeKind::kUnsigned, 32}) || (compares && reduces)) {
    at.fail("the type has no such atomic operation");
  }
  const size_t first = reduces ? 0 : 1;
  at.expect_operands(first + (compares ? 3 : 2), first + (compares ? 3 : 2));
  at.in.extra = static_cast<uint64_t>(operation->second) | static_cast<uint64_t>(space) << kSpaceShift |
                static_cast<uint64_t>(near ? Strength::kBlock : Strength::kDevice) << kStrengthShift |
                (acquires ? kAcquire : 0) | (releases ? kRelease : 0);
  if (!reduces) {
    at.destination(0, type);
  }
  at.address(first, space);
  at.source(first + 1, type);
  if (compares) {
    at.source(first + 2, type);
  }
  with_integer(type.bits, type.is_signed(), [&]<class T>(T /*type*/) {
    if constexpr (sizeof(T) >= 4) {
      at.in.run = run_atomic<T>;
    }
  });
  return true;
}

}  // namespace xrun::ptx
