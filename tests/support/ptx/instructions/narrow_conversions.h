// Conversions from and to floating-point formats of 8 and 16 bits, and tf32.
#pragma once

#include "tests/support/ptx/decoder.h"

namespace xrun::ptx {

// Returns whether a type has f16, bf16, e4m3 or e5m2 numbers.
bool is_narrow(Type type);

// Decodes a `cvt` of which one type is narrow, or the result is tf32, after its modifiers: `in.extra` has flags, mode
// and rounding to whole numbers (rounding.h). `away` is `.rna`; `rounded`: the statement has a rounding mode.
void decode_narrow_conversion(Decoder& at, Type to, Type from, bool away, bool rounded);

}  // namespace xrun::ptx
