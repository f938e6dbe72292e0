// The instruction sets that kernels are written for, found at run time.
#pragma once

#include <optional>
#include <string_view>

#include "graph/base/result.h"

namespace xrun::ops {

// In ascending order: each includes the preceding ones.
enum class Isa { kAvx2, kAvx512, kAvx512Bf16, kAmx };

// The instruction set of this processor, limited by XRUN_ISA (avx2, avx512, avx512_bf16, amx) if set. kAmx means that
// the operating system has granted the process the tile registers.
Isa detect_isa();
// Like detect_isa, for a command: rejects an XRUN_ISA that does not name an instruction set, or names one that the
// processor lacks. Errors: XG0802.
Result<Isa> choose_isa();
std::string_view name_of(Isa isa);
std::optional<Isa> parse_isa(std::string_view name);
bool has_native_bf16(Isa isa);

}  // namespace xrun::ops
