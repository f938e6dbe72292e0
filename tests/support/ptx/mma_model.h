// The arithmetic of tensor cores: products of bf16 summed into f32, by generation of GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace xrun::ptx {

// Generations whose tensor cores and limits of a multiprocessor the machine knows.
enum class Generation : uint8_t { kA100, kH100, kB200 };

// A sum takes `terms` products and the addend at once: all are aligned to the largest exponent among them, cut off
// `fraction_bits` bits after its binary point, and added exactly; the result is cut off to f32. Longer sums take groups
// of `terms` products one after another, each with the result of the group before as its addend.
//   A100: 8 products, 24 bits. H100 and B200: 16 products, 25 bits.
// Source: Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores", arXiv 2512.07004; Xie et al., "MMA-Sim",
// arXiv 2511.10909.
// Assumed, since nothing here ran on a card:
//   - the exponent of a product is the sum of the exponents of its factors, even if its significand is 2 or more;
//   - a subnormal number has the exponent of the smallest normal one and is not normalised; zeros have no exponent;
//   - numbers are cut off towards zero, by magnitude; a sum of zero is +0, and of only negative zeros too;
//   - a sum beyond f32 is an infinity; a NaN, infinities of both signs or zero times infinity give 0x7fffffff;
//   - B200 computes `mma.sync` of bf16 with the model of H100.
struct TensorCore {
  size_t terms = 0;
  int fraction_bits = 0;
};
TensorCore tensor_core(Generation generation);

// A number as significand * 2^exponent, for repeated use in sums.
struct Term {
  int32_t significand = 0;  // with sign; 8 bits for bf16
  int32_t exponent = 0;     // exponent for the bit before the binary point
  enum class Kind : uint8_t { kFinite, kInfinite, kNan } kind = Kind::kFinite;
};
Term term_of_bfloat(uint16_t bits);

// The sum of a[i] * b[i] and the addend. a, b: the same number of terms, a multiple of 8.
float sum_of_products(const TensorCore& core, std::span<const Term> a, std::span<const Term> b, float addend);

}  // namespace xrun::ptx
