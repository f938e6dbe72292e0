// Lanes that write LLVM instructions instead of computing. The functions of lane_math.h and lane_ops.h are called with
// them and so write their own code. Each operation becomes one instruction. No fast-math flag is set, so LLVM neither
// reorders nor contracts instructions.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/PatternMatch.h>

#include "ops/simd/simd.h"

namespace xrun::ops {

// An LLVM value, and the builder to which instructions that read it are added. `Tag` distinguishes f32, whole numbers
// and f64.
template <class Tag>
struct IrValue {
  llvm::IRBuilder<>* to = nullptr;
  llvm::Value* value = nullptr;
};
using IrLanes = IrValue<float>;
using IrInts = IrValue<int32_t>;
using IrDoubles = IrValue<double>;

// Values are vectors of sixteen lanes in loops for CPUs, and scalars in kernels of GPUs. Returns the type that has as
// many lanes as `like`, of type `element`.
inline llvm::Type* lanes_like(llvm::Value* like, llvm::Type* element) {
  return like->getType()->getWithNewType(element);
}

template <class Tag>
llvm::Value* same_number(const IrValue<Tag>& like, double number) {
  return llvm::ConstantFP::get(like.value->getType(), number);
}
inline llvm::Value* same_number(const IrInts& like, int32_t number) {
  return llvm::ConstantInt::getSigned(like.value->getType(), number);
}

// Writes an instruction of PTX with one operand as inline assembly, for instructions that LLVM would not choose.
inline llvm::Value* written(llvm::IRBuilder<>& to, const char* text, const char* constraints, llvm::Value* operand,
                            llvm::Type* result) {
  auto* const type = llvm::FunctionType::get(result, {operand->getType()}, false);
  return to.CreateCall(type, llvm::InlineAsm::get(type, text, constraints, false), {operand});
}

// ---- + - * / of f32 and f64, with numbers on either side
#define XRUN_IR_OPERATOR(sign, create)                                            \
  template <class Tag>                                                            \
  IrValue<Tag> operator sign(const IrValue<Tag>& a, const IrValue<Tag>& b) {      \
    return {a.to, a.to->create(a.value, b.value)};                                \
  }                                                                               \
  inline IrLanes operator sign(const IrLanes& a, float b) {                       \
    return {a.to, a.to->create(a.value, same_number(a, static_cast<double>(b)))}; \
  }                                                                               \
  inline IrLanes operator sign(float a, const IrLanes& b) {                       \
    return {b.to, b.to->create(same_number(b, static_cast<double>(a)), b.value)}; \
  }                                                                               \
  inline IrDoubles operator sign(const IrDoubles& a, double b) {                  \
    return {a.to, a.to->create(a.value, same_number(a, b))};                      \
  }
XRUN_IR_OPERATOR(+, CreateFAdd)
XRUN_IR_OPERATOR(-, CreateFSub)
XRUN_IR_OPERATOR(*, CreateFMul)
XRUN_IR_OPERATOR(/, CreateFDiv)
#undef XRUN_IR_OPERATOR
// Changes the sign bit. The negation of PTX also flushes denormal numbers, which that of x86 does not, so a number that
// is not the result of arithmetic is negated as bits, in assembly that LLVM does not turn into a negation.
inline IrLanes operator-(const IrLanes& a) {
  if (a.value->getType()->isVectorTy() || llvm::isa<llvm::BinaryOperator>(a.value)) {
    return {a.to, a.to->CreateFNeg(a.value)};
  }
  return {a.to, written(*a.to, "xor.b32 $0, $1, 0x80000000;", "=f,f", a.value, a.value->getType())};
}

// ---- whole numbers
inline IrInts operator-(const IrInts& a, const IrInts& b) { return {a.to, a.to->CreateSub(a.value, b.value)}; }
inline IrInts operator+(const IrInts& a, int32_t b) { return {a.to, a.to->CreateAdd(a.value, same_number(a, b))}; }
inline IrInts operator-(const IrInts& a, int32_t b) { return {a.to, a.to->CreateSub(a.value, same_number(a, b))}; }
inline IrInts operator&(const IrInts& a, int32_t b) { return {a.to, a.to->CreateAnd(a.value, same_number(a, b))}; }
inline IrInts operator|(const IrInts& a, int32_t b) { return {a.to, a.to->CreateOr(a.value, same_number(a, b))}; }
inline IrInts operator<<(const IrInts& a, int32_t b) { return {a.to, a.to->CreateShl(a.value, same_number(a, b))}; }
inline IrInts operator>>(const IrInts& a, int32_t b) { return {a.to, a.to->CreateAShr(a.value, same_number(a, b))}; }

// ---- the other operations of simd.h
inline IrLanes fill_like(const IrLanes& like, float x) { return {like.to, same_number(like, static_cast<double>(x))}; }

inline IrInts bits_of(const IrLanes& x) {
  return {x.to, x.to->CreateBitCast(x.value, lanes_like(x.value, x.to->getInt32Ty()))};
}
inline IrLanes from_bits(const IrInts& x) {
  return {x.to, x.to->CreateBitCast(x.value, lanes_like(x.value, x.to->getFloatTy()))};
}
inline IrLanes converted(const IrInts& x) {
  return {x.to, x.to->CreateSIToFP(x.value, lanes_like(x.value, x.to->getFloatTy()))};
}

inline IrLanes chosen(const IrLanes& at, llvm::Value* condition, const IrLanes& yes, const IrLanes& no) {
  return {at.to, at.to->CreateSelect(condition, yes.value, no.value)};
}

template <int kWhat>
IrLanes choose(const IrLanes& a, const IrLanes& b, const IrLanes& yes, const IrLanes& no) {
  using Predicate = llvm::CmpInst::Predicate;
  constexpr Predicate kPredicate = kWhat == _CMP_LT_OQ     ? Predicate::FCMP_OLT
                                   : kWhat == _CMP_LE_OQ   ? Predicate::FCMP_OLE
                                   : kWhat == _CMP_GT_OQ   ? Predicate::FCMP_OGT
                                   : kWhat == _CMP_EQ_OQ   ? Predicate::FCMP_OEQ
                                   : kWhat == _CMP_NEQ_UQ  ? Predicate::FCMP_UNE
                                   : kWhat == _CMP_UNORD_Q ? Predicate::FCMP_UNO
                                                           : Predicate::BAD_FCMP_PREDICATE;
  static_assert(kPredicate != Predicate::BAD_FCMP_PREDICATE);
  if (kPredicate == Predicate::FCMP_UNE) {
    // The result of a comparison is 1 or 0: if it is compared with 0, its condition is used directly.
    using namespace llvm::PatternMatch;
    llvm::Value* condition = nullptr;
    if (match(b.value, m_PosZeroFP()) && match(a.value, m_Select(m_Value(condition), m_FPOne(), m_PosZeroFP()))) {
      return chosen(a, condition, yes, no);
    }
  }
  llvm::Value* const condition = a.to->CreateFCmp(kPredicate, a.value, b.value);
  const auto is_operand = [&](const IrLanes& x) { return x.value == a.value || x.value == b.value; };
  if (!a.value->getType()->isVectorTy() && is_operand(yes) && is_operand(no)) {
    // For PTX, LLVM would write a minimum or maximum, which flushes a denormal number that it passes on.
    return from_bits({a.to, a.to->CreateSelect(condition, bits_of(yes).value, bits_of(no).value)});
  }
  return chosen(a, condition, yes, no);
}

inline IrLanes if_less(const IrLanes& a, const IrLanes& b, const IrLanes& yes, const IrLanes& no) {
  return choose<_CMP_LT_OQ>(a, b, yes, no);
}
inline IrLanes if_number(const IrLanes& x, const IrLanes& yes, const IrLanes& no) {
  return choose<_CMP_EQ_OQ>(x, x, yes, no);
}
inline IrLanes if_bit(const IrInts& x, int32_t bit, const IrLanes& yes, const IrLanes& no) {
  return chosen(yes, x.to->CreateICmpNE((x & bit).value, same_number(x, 0)), yes, no);
}

inline IrLanes square_root(const IrLanes& x) {
  return {x.to, x.to->CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x.value)};
}
inline IrLanes floor_lanes(const IrLanes& x) {
  return {x.to, x.to->CreateUnaryIntrinsic(llvm::Intrinsic::floor, x.value)};
}

}  // namespace xrun::ops
