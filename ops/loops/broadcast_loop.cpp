#include "ops/loops/broadcast_loop.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "ops/shape.h"
#include "ops/simd/simd.h"

namespace xrun::ops {
namespace {

// The least number of elements in a piece; shorter pieces cost more than the copies that they save.
constexpr int64_t kShortest = kScalarBlock / 2;

}  // namespace

std::vector<BroadcastLoop::Operand> BroadcastLoop::operands_of(const KernelSpec& spec) {
  std::vector<Operand> operands;
  for (const TensorType& input : spec.inputs) {
    const BroadcastReader reader(input, spec.outputs[0], spec.rows);
    const bool is_f32 = input.dtype == DType::kF32;
    if (reader.is_whole()) {
      operands.push_back({reader, loop_input(input.dtype), size_of(input.dtype)});
    } else {
      operands.push_back({reader, is_f32 && reader.period() == 1 ? LoopInput::kUniform : LoopInput::kF32});
    }
  }
  return operands;
}

LoopForm BroadcastLoop::form_of(const KernelSpec& spec, const std::vector<Operand>& operands, ScalarExpr expr,
                                Stores stores) {
  LoopForm form{.expr = std::move(expr)};
  for (const Operand& operand : operands) {
    form.inputs.push_back(operand.kind);
  }
  Bytes results = 0;
  for (const TensorType& output : spec.outputs) {
    form.outputs.push_back(output.dtype);
    results += block_elements(output, spec.rows) * size_of(output.dtype);
  }
  form.streams = stores == Stores::kPastThemWhereLarge && results >= kStreamed;
  return form;
}

BroadcastLoop::BroadcastLoop(const KernelSpec& spec, ScalarExpr expr)
    : BroadcastLoop(spec, std::move(expr), Stores::kPastThemWhereLarge) {}

BroadcastLoop::BroadcastLoop(const KernelSpec& spec, ScalarExpr expr, Stores stores)
    : elements_(block_elements(spec.outputs[0], spec.rows)),
      result_size_(size_of(spec.outputs[0].dtype)),
      operands_(operands_of(spec)),
      loop_(form_of(spec, operands_, std::move(expr), stores), spec.isa, spec.compile) {
  choose_pieces();
}

void BroadcastLoop::choose_pieces() {
  bool repeats = true;
  bool lies_there = true;  // whether no operand needs to be copied within a period
  int64_t run = 0;
  for (const Operand& operand : operands_) {
    if (operand.is_read()) {
      const int64_t period = operand.reader.period();
      repeats = repeats && period > 0;
      lies_there = lies_there && operand.reader.lies_there();
      period_ = std::max(period_, period);
      run = run == 0 ? operand.reader.run() : std::gcd(run, operand.reader.run());
    }
  }
  for (const Operand& operand : operands_) {
    repeats = repeats && (!operand.is_read() || period_ % operand.reader.period() == 0);
  }
  const int64_t step = std::lcm(period_, int64_t{kLanes});
  if (run == 0) {
    each_ = elements_;  // no operand is copied to blocks
  } else if (repeats && period_ >= kShortest && (period_ <= kScalarBlock || (lies_there && run == period_))) {
    each_ = period_;
  } else if (repeats && step <= kScalarBlock) {
    each_ = kScalarBlock / step * step;
  } else {
    period_ = 0;
    each_ = kScalarBlock;
    run_ = lies_there && run >= kShortest ? run : 0;
  }
}

// Returns the number of elements of the piece that begins at `begin`.
int64_t BroadcastLoop::piece(int64_t begin, int64_t end) const {
  const int64_t most = std::min(each_, end - begin);
  const int64_t cut = period_ > 0 ? period_ : run_;
  const int64_t past = cut > 0 ? begin % cut : 0;
  return past > 0 || run_ > 0 ? std::min({most, cut - past, kScalarBlock}) : most;
}

// Sets `read` to the addresses of the operands for a piece. If this piece and the previous one (`has_read`) both begin
// with a period, the addresses of the previous piece stay valid and nothing is copied again. Returns whether this piece
// begins with a period.
bool BroadcastLoop::read_operands(std::span<const TensorView> inputs, std::byte* scratch, int64_t begin, int64_t n,
                                  bool has_read, const void** read) const {
  const bool repeats = period_ > 0 && begin % period_ == 0;
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!operands_[i].is_read()) {
      read[i] = inputs[i].data + begin * operands_[i].size;
    } else if (!(repeats && has_read)) {
      read[i] = operands_[i].reader.read(inputs[i].data, begin, n, loop_.block(scratch, i));
    }
  }
  return repeats;
}

void BroadcastLoop::run(const KernelCall& call, Range some) const {
  run_pieces(
      call.inputs, call.scratch, some, some.size(),
      [&](int64_t begin, void** outputs) {
        for (size_t r = 0; r < call.outputs.size(); ++r) {
          outputs[r] = call.outputs[r].data + begin * result_size_;
        }
      },
      [](int64_t, int64_t) {});
}

}  // namespace xrun::ops
