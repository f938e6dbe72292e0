// The arithmetic of tensor cores: products of bf16, f16, tf32 and fp8 summed into f32, by generation of GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace xrun::ptx {

// Generations whose tensor cores and limits of a multiprocessor the machine knows.
enum class Generation : uint8_t { kA100, kH100, kB200 };

// A sum takes `terms` products and the addend at once: all are aligned to the largest exponent among them, cut off
// `fraction_bits` bits after its binary point, and added exactly; the result is truncated to f32. Longer sums take
// groups of `terms` products one after another, each with the result of the group before as its addend. A100 takes
// products of 16 bytes of a row and keeps 24 bits; H100 and B200 take 32 bytes and keep 25 bits.
//   - The exponent of a product is the sum of the exponents of its factors, even if its significand is 2 or more.
//   - A subnormal number has the exponent of the smallest normal one and is not normalised; zeros have no exponent.
//   - Numbers are cut off towards zero, by magnitude. A sum beyond f32 is an infinity; a NaN, infinities of both signs
//     or zero times infinity give 0x7fffffff.
// Sources, which agree on all of this and compared their models with such GPUs: Khattak and Mikaitis, "Accurate Models
// of NVIDIA Tensor Cores", arXiv 2512.07004, with github.com/north-numerical-computing/MATLAB-tensor-core; Xie et al.,
// "MMA-Sim", arXiv 2511.10909, with github.com/microsoft/MMA-Sim.
// Assumed, since nothing here ran on a card:
//   - the largest exponent is at least -133, as in the first source; in a version of the second one it is -126 if there
//     is a zero. Only sums below 2^-126 differ;
//   - a sum of zero is +0, even if all terms are negative zeros.
struct TensorCore {
  size_t terms = 0;
  int fraction_bits = 0;
};
// `bytes`: of an element of a and b, 2 or 4.
TensorCore tensor_core(Generation generation, size_t bytes = 2);

// A number as significand * 2^(exponent - 10), for repeated use in sums.
struct Term {
  int32_t significand = 0;  // with sign; 11 bits, 10 of them after the binary point
  int32_t exponent = 0;
  enum class Kind : uint8_t { kFinite, kInfinite, kNan } kind = Kind::kFinite;
};
Term term_of_bfloat(uint16_t bits);
Term term_of_half(uint16_t bits);
Term term_of_tf32(uint32_t bits);  // the 13 lowest bits of an f32 are cut off

// The sum of a[i] * b[i] and the addend. a, b: the same number of terms, a multiple of 4.
float sum_of_products(const TensorCore& core, std::span<const Term> a, std::span<const Term> b, float addend);

}  // namespace xrun::ptx
