// Conversions from and to floating-point formats of 8 and 16 bits, and tf32.
#pragma once

#include "tests/support/ptx/decoder.h"

namespace xrun::ptx {

// Returns whether a type has f16, bf16, e4m3 or e5m2 numbers.
bool is_narrow(Type type);

// Decodes a `cvt` with a narrow type, or to tf32. Its modifiers were taken before: `in.extra` has flags, mode and
// rounding to whole numbers (rounding.h), `away` is true for `.rna`, and `rounded` if the statement has a rounding
// mode.
void decode_narrow_conversion(Decoder& at, Type to, Type from, bool away, bool rounded);

}  // namespace xrun::ptx
