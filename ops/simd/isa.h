// The instruction sets for which kernels are written, and the choice of one at run time.
#pragma once

#include <optional>
#include <string_view>

#include "graph/base/result.h"

namespace xrun::ops {

// In ascending order: each includes the preceding ones.
enum class Isa { kAvx2, kAvx512, kAvx512Bf16, kAmx };

// Returns the best instruction set of this processor, but at most the one that XRUN_ISA names (avx2, avx512,
// avx512_bf16, amx), if it is set. The result kAmx means that the operating system has granted the tile registers to
// the process.
Isa detect_isa();
// Like detect_isa, for commands: also rejects an XRUN_ISA that is not the name of an instruction set, or names one that
// the processor lacks. Errors: XG0802.
Result<Isa> choose_isa();
std::string_view name_of(Isa isa);
std::optional<Isa> parse_isa(std::string_view name);
bool has_native_bf16(Isa isa);

}  // namespace xrun::ops
