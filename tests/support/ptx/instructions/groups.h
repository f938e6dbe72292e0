// The groups of instructions. Each function decodes the statement of a decoder if its opcode belongs to the group, and
// returns whether it does.
#pragma once

#include "tests/support/ptx/decoder.h"

namespace xrun::ptx {

bool decode_integers(Decoder& at);     // add sub mul mad div rem abs neg min max sad
bool decode_bits(Decoder& at);         // and or xor not cnot shl shr shf bfe bfi prmt lop3 popc clz brev bfind
bool decode_halves(Decoder& at);       // add sub mul fma min max abs neg of f16 and bf16
bool decode_floats(Decoder& at);       // add sub mul fma div sqrt min max abs neg of f32 and f64
bool decode_comparisons(Decoder& at);  // setp set selp slct
bool decode_conversions(Decoder& at);  // cvt
bool decode_moves(Decoder& at);        // mov cvta isspacep
bool decode_accesses(Decoder& at);     // ld st prefetch
bool decode_atomics(Decoder& at);      // atom red fence membar
bool decode_copies(Decoder& at);       // cp.async and its groups
bool decode_matrices(Decoder& at);     // ldmatrix stmatrix movmatrix
bool decode_products(Decoder& at);     // mma
bool decode_exchanges(Decoder& at);    // shfl vote activemask match redux
bool decode_flow(Decoder& at);         // bra brx.idx exit ret bar barrier trap brkpt nanosleep

}  // namespace xrun::ptx
