#include "ops/jit/interpreter.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "ops/simd/lane_ops.h"

namespace xrun::ops {
namespace {

template <ScalarOp kOp>
struct LoopBody {
  template <class L>
  XRUN_INLINE static void run(const float* a, const float* b, const float* c, float* y, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store(y + i, compute<kOp>(load<L>(a + i), load<L>(b + i), load<L>(c + i)));
    }
  }
};

using LoopFunction = void (*)(const float*, const float*, const float*, float*, int64_t);

LoopFunction loop_of(ScalarOp op, Isa isa) {
  using A = const float*;
  return with_scalar_op(op, [isa](auto known) -> LoopFunction {
    using Body = LoopBody<known()>;
    return isa >= Isa::kAvx512 ? &run_avx512<Body, A, A, A, float*, int64_t>
                               : &run_avx2<Body, A, A, A, float*, int64_t>;
  });
}

// Returns for each node the last operation that reads it.
std::vector<size_t> last_uses(const ScalarExpr& expr, const std::vector<bool>& reached) {
  std::vector<size_t> last(expr.nodes().size(), 0);
  for (size_t i = 0; i < expr.nodes().size(); ++i) {
    for (const ScalarId arg : expr.nodes()[i].args) {
      if (reached[i] && arg.valid()) {
        last[static_cast<size_t>(arg.index)] = i;
      }
    }
  }
  for (const ScalarId id : expr.results()) {
    last[static_cast<size_t>(id.index)] = expr.nodes().size();
  }
  return last;
}

}  // namespace

Interpreter::Interpreter(const ScalarExpr& expr, int inputs, Isa isa) : input_count_(inputs) {
  const std::vector<ScalarNode>& nodes = expr.nodes();
  const std::vector<bool> reached = expr.reached();
  const std::vector<size_t> last = last_uses(expr, reached);
  std::vector<float> numbers;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (reached[i] && nodes[i].op == ScalarOp::kConstant) {
      numbers.push_back(static_cast<float>(nodes[i].value));
    }
  }
  constant_count_ = static_cast<int32_t>(numbers.size());
  auto* const blocks = new (std::align_val_t{64}) float[numbers.size() * kScalarBlock + 1];
  constants_ = {blocks, [](float* memory) { operator delete[](memory, std::align_val_t{64}); }};
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::fill_n(blocks + i * kScalarBlock, kScalarBlock, numbers[i]);
  }

  std::vector<int32_t> slot_of(nodes.size(), 0);
  std::vector<int32_t> free_blocks;
  const int32_t first_block = input_count_ + constant_count_;
  int32_t constants = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ScalarNode& node = nodes[i];
    if (!reached[i]) {
      continue;
    }
    if (node.op == ScalarOp::kInput) {
      slot_of[i] = node.input;
      continue;
    }
    if (node.op == ScalarOp::kConstant) {
      slot_of[i] = input_count_ + constants++;
      continue;
    }
    Operation operation{.loop = loop_of(node.op, isa)};
    for (size_t k = 0; k < 3; ++k) {
      // Arguments that the operation does not have get some valid slot, which is read but not used.
      const ScalarId arg = node.args[node.args[k].valid() ? k : 0];
      operation.args[k] = slot_of[static_cast<size_t>(arg.index)];
    }
    for (size_t k = 0; k < 3 && node.args[k].valid(); ++k) {
      const int32_t slot = operation.args[k];
      const bool again = std::find(operation.args, operation.args + k, slot) != operation.args + k;
      if (last[static_cast<size_t>(node.args[k].index)] == i && slot >= first_block && !again) {
        free_blocks.push_back(slot);  // a loop works lane for lane, so it may write to a block that it reads
      }
    }
    if (free_blocks.empty()) {
      operation.result = first_block + blocks_++;
    } else {
      operation.result = free_blocks.back();
      free_blocks.pop_back();
    }
    slot_of[i] = operation.result;
    operations_.push_back(operation);
  }
  for (const ScalarId id : expr.results()) {
    results_.push_back(slot_of[static_cast<size_t>(id.index)]);
  }
  const auto addresses = static_cast<Bytes>(sizeof(float*)) * (first_block + blocks_);
  blocks_at_ = (addresses + 63) / 64 * 64;
}

void Interpreter::run(std::byte* scratch, int64_t n) const {
  const float** const addresses = inputs(scratch);
  for (int32_t i = 0; i < constant_count_; ++i) {
    addresses[input_count_ + i] = constants_.get() + static_cast<int64_t>(i) * kScalarBlock;
  }
  auto* const blocks = reinterpret_cast<float*>(scratch + blocks_at_);
  const int32_t first_block = input_count_ + constant_count_;
  for (int32_t i = 0; i < blocks_; ++i) {
    addresses[first_block + i] = blocks + static_cast<int64_t>(i) * kScalarBlock;
  }
  for (const Operation& operation : operations_) {
    float* const y = blocks + static_cast<int64_t>(operation.result - first_block) * kScalarBlock;
    operation.loop(addresses[operation.args[0]], addresses[operation.args[1]], addresses[operation.args[2]], y, n);
  }
}

const float* Interpreter::result(const std::byte* scratch, int index) const {
  return reinterpret_cast<const float* const*>(scratch)[results_[static_cast<size_t>(index)]];
}

}  // namespace xrun::ops
