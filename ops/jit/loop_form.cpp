#include "ops/jit/loop_form.h"

namespace xrun::ops {

std::string describe(const LoopForm& form, Isa isa) {
  std::string text(isa >= Isa::kAvx512 ? "avx512" : "avx2");
  for (const LoopInput input : form.inputs) {
    text += input == LoopInput::kF32    ? " f32"
            : input == LoopInput::kBF16 ? " bf16"
            : input == LoopInput::kF16  ? " f16"
                                        : " uniform";
  }
  text += " ->";
  for (const DType output : form.outputs) {
    text += " " + std::string(name_of(output));
  }
  return text + (form.squares ? " squares" : form.streams ? " past caches" : "") + ": " + to_text(form.expr);
}

}  // namespace xrun::ops
