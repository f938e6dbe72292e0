// The kernel of an element-wise loop:
//   i = block · 256 + thread; if (i < elements) { load operands; compute; store results }
// The kernel of sums has sixteen threads for each row. Thread `lane` of a row keeps the running sum of the elements
// lane, lane + 16, ...; then the threads exchange their sums in the tree of sum_lanes (ops/simd/simd.h), and the first
// one stores the total. All threads of a warp take part in the exchange, also those that have no row.
//
// A thread loads all operands of an element before it stores a result, so a result may be the memory of an operand.
// Tests: tests/gpu_loops/kernels_test.cpp, tests/gpu_loops/sums_test.cpp
#include "ops/jit/plugin/write_kernel.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <vector>

#include "ops/jit/plugin/write_operation.h"

namespace xrun::ops {
namespace {

using Reach = GpuOperand::Reach;
using Sums = GpuLoop::Sums;

constexpr unsigned kGlobal = 1;  // the address space of global memory in NVPTX

class KernelWriter {
 public:
  KernelWriter(const GpuLoop& loop, llvm::Module& module)
      : loop_(loop), module_(module), context_(module.getContext()), to_(context_) {
    std::vector<llvm::Type*> parameters;
    llvm::Type* const address = llvm::PointerType::get(context_, kGlobal);
    for (const GpuOperand& input : loop.inputs) {
      parameters.push_back(input.reach == Reach::kNumber ? to_.getFloatTy() : address);
    }
    parameters.insert(parameters.end(), loop.outputs.size(), address);
    parameters.push_back(to_.getInt64Ty());
    auto* const type = llvm::FunctionType::get(to_.getVoidTy(), parameters, false);
    function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kGpuKernel, module);
    function_->addFnAttr(llvm::Attribute::NoUnwind);
    // Denormal f32 numbers are flushed, as on CPUs (compute_modes.h): the instructions get `.ftz`.
    function_->addFnAttr("denormal-fp-math-f32", "preserve-sign,preserve-sign");
    annotate("kernel", 1);
    annotate("maxntidx", kGpuThreads);
    index_ = loop.large || loop.sums != Sums::kNone ? to_.getInt64Ty() : to_.getInt32Ty();
    to_.SetInsertPoint(block("entry"));
  }

  void write() { loop_.sums == Sums::kNone ? write_elements() : write_sums(); }

 private:
  llvm::BasicBlock* block(const char* name) { return llvm::BasicBlock::Create(context_, name, function_); }

  void annotate(const char* name, int64_t number) {
    llvm::Metadata* const values[] = {llvm::ConstantAsMetadata::get(function_), llvm::MDString::get(context_, name),
                                      llvm::ConstantAsMetadata::get(to_.getInt32(static_cast<uint32_t>(number)))};
    module_.getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(context_, values));
  }

  llvm::Value* number(int64_t value) { return llvm::ConstantInt::getSigned(index_, value); }
  llvm::Value* special(llvm::Intrinsic::ID id) { return to_.CreateIntrinsic(id, {}, {}); }

  // The number of this thread in the launch.
  llvm::Value* thread() {
    llvm::Value* const of_block = to_.CreateZExt(special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x), index_);
    llvm::Value* const in_block = to_.CreateZExt(special(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x), index_);
    return to_.CreateAdd(to_.CreateMul(of_block, number(kGpuThreads)), in_block);
  }

  llvm::Value* elements() {
    return to_.CreateTrunc(function_->getArg(static_cast<unsigned>(function_->arg_size()) - 1), index_);
  }

  void write_elements() {
    auto* const work = block("work");
    auto* const end = block("end");
    llvm::Value* const i = thread();
    to_.CreateCondBr(to_.CreateICmpULT(i, elements()), work, end);
    to_.SetInsertPoint(work);
    const std::vector<IrLanes> results = compute_at(i);
    for (size_t r = 0; r < results.size(); ++r) {
      store_result(r, results[r], i);
    }
    to_.CreateBr(end);
    to_.SetInsertPoint(end);
    to_.CreateRetVoid();
  }

  void write_sums() {
    auto* const entry = to_.GetInsertBlock();
    auto* const head = block("head");
    auto* const body = block("body");
    auto* const tree = block("tree");
    auto* const first = block("first");
    auto* const end = block("end");
    llvm::Value* const me = thread();
    llvm::Value* const row = to_.CreateLShr(me, number(4));
    static_assert(kRowThreads == 16);
    llvm::Value* const lane = to_.CreateAnd(me, number(kRowThreads - 1));
    llvm::Value* const begin = to_.CreateMul(row, number(loop_.row));
    llvm::Value* const past = to_.CreateAdd(begin, number(loop_.row));
    llvm::Value* const limit = to_.CreateSelect(to_.CreateICmpULT(past, elements()), past, elements());
    llvm::Value* const start = to_.CreateAdd(begin, lane);
    to_.CreateBr(head);

    to_.SetInsertPoint(head);
    llvm::PHINode* const i = to_.CreatePHI(index_, 2);
    std::vector<llvm::PHINode*> sums;
    llvm::Type* const type = loop_.sums == Sums::kMeans ? to_.getFloatTy() : to_.getDoubleTy();
    for (size_t r = 0; r < loop_.outputs.size(); ++r) {
      sums.push_back(to_.CreatePHI(type, 2));
      sums.back()->addIncoming(llvm::ConstantFP::get(type, 0), entry);
    }
    to_.CreateCondBr(to_.CreateICmpULT(i, limit), body, tree);

    to_.SetInsertPoint(body);
    const std::vector<IrLanes> results = compute_at(i);
    for (size_t r = 0; r < results.size(); ++r) {
      llvm::Value* term = results[r].value;
      if (loop_.sums == Sums::kSquares) {  // squares of f32 are exact in f64
        term = to_.CreateFPExt(term, type);
        term = to_.CreateFMul(term, term);
      }
      sums[r]->addIncoming(to_.CreateFAdd(sums[r], term), body);
    }
    i->addIncoming(start, entry);
    i->addIncoming(to_.CreateAdd(i, number(kRowThreads)), body);
    to_.CreateBr(head);

    to_.SetInsertPoint(tree);
    std::vector<llvm::Value*> totals;
    for (llvm::PHINode* const sum : sums) {
      totals.push_back(total_of(sum));
    }
    llvm::Value* const is_first = to_.CreateICmpEQ(lane, number(0));
    to_.CreateCondBr(to_.CreateAnd(is_first, to_.CreateICmpULT(begin, elements())), first, end);

    to_.SetInsertPoint(first);
    for (size_t r = 0; r < totals.size(); ++r) {
      to_.CreateStore(totals[r], to_.CreateGEP(type, result(r), row));
    }
    to_.CreateBr(end);
    to_.SetInsertPoint(end);
    to_.CreateRetVoid();
  }

  // Adds the sums of sixteen threads in a fixed tree; the first of them gets the total.
  llvm::Value* total_of(llvm::Value* sum) {
    for (int width = kRowThreads / 2; width > 0; width /= 2) {
      sum = to_.CreateFAdd(sum, from_thread(sum, width));
    }
    return sum->getType()->isFloatTy()
               ? to_.CreateFDiv(
                     sum, llvm::ConstantFP::get(sum->getType(), static_cast<double>(static_cast<float>(loop_.row))))
               : sum;
  }

  // The value of the thread `ahead` places further in the row.
  llvm::Value* from_thread(llvm::Value* value, int ahead) {
    if (value->getType()->isDoubleTy()) {
      llvm::Value* const bits = to_.CreateBitCast(value, to_.getInt64Ty());
      llvm::Value* const low = exchanged(to_.CreateTrunc(bits, to_.getInt32Ty()), ahead);
      llvm::Value* const high = exchanged(to_.CreateTrunc(to_.CreateLShr(bits, 32), to_.getInt32Ty()), ahead);
      llvm::Value* const upper = to_.CreateShl(to_.CreateZExt(high, to_.getInt64Ty()), 32);
      return to_.CreateBitCast(to_.CreateOr(upper, to_.CreateZExt(low, to_.getInt64Ty())), value->getType());
    }
    llvm::Value* const bits = exchanged(to_.CreateBitCast(value, to_.getInt32Ty()), ahead);
    return to_.CreateBitCast(bits, value->getType());
  }

  llvm::Value* exchanged(llvm::Value* bits, int ahead) {
    constexpr uint32_t kHalfWarps = ((32 - kRowThreads) << 8) | 31;  // the ends of rows are those of half warps
    return to_.CreateIntrinsic(
        llvm::Intrinsic::nvvm_shfl_sync_down_i32, {},
        {to_.getInt32(~0U), bits, to_.getInt32(static_cast<uint32_t>(ahead)), to_.getInt32(kHalfWarps)});
  }

  // Writes the loads of element i and the operations of the expression.
  std::vector<IrLanes> compute_at(llvm::Value* i) {
    const std::vector<ScalarNode>& nodes = loop_.expr.nodes();
    std::vector<llvm::Value*> indices;
    std::vector<IrLanes> values(nodes.size());
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n].op == ScalarOp::kInput) {
        values[n] = load_input(static_cast<size_t>(nodes[n].input), i, indices);
      } else if (nodes[n].op == ScalarOp::kConstant) {
        values[n] = constant(nodes[n].value);
      }
    }
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n].op != ScalarOp::kInput && nodes[n].op != ScalarOp::kConstant) {
        const auto arg = [&](size_t k) {
          return values[static_cast<size_t>(nodes[n].args[nodes[n].args[k].valid() ? k : 0].index)];
        };
        values[n] = write_operation(nodes[n].op, arg(0), arg(1), arg(2));
      }
    }
    std::vector<IrLanes> results;
    for (const ScalarId id : loop_.expr.results()) {
      results.push_back(values[static_cast<size_t>(id.index)]);
    }
    return results;
  }

  IrLanes load_input(size_t k, llvm::Value* i, std::vector<llvm::Value*>& indices) {
    const GpuOperand& input = loop_.inputs[k];
    llvm::Value* const from = function_->getArg(static_cast<unsigned>(k));
    switch (input.reach) {
      case Reach::kNumber:
        return {&to_, from};
      case Reach::kOne:
        return load(DType::kF32, from);
      case Reach::kEach:
        return load(input.dtype, element(input.dtype, from, i));
      case Reach::kSteps:
        break;
    }
    if (indices.empty()) {
      indices = indices_of(i);
    }
    llvm::Value* at = number(0);
    for (size_t d = 0; d < indices.size(); ++d) {
      if (input.steps[d] != 0) {
        at = to_.CreateAdd(at, to_.CreateMul(indices[d], number(input.steps[d])));
      }
    }
    return load(input.dtype, element(input.dtype, from, at));
  }

  // Splits the number of an element into indices of the dimensions. The outermost index is what remains.
  std::vector<llvm::Value*> indices_of(llvm::Value* i) {
    std::vector<llvm::Value*> indices(loop_.dims.size());
    for (size_t d = loop_.dims.size(); d-- > 1;) {
      llvm::Value* const rest = to_.CreateUDiv(i, number(loop_.dims[d]));
      indices[d] = to_.CreateSub(i, to_.CreateMul(rest, number(loop_.dims[d])));
      i = rest;
    }
    indices[0] = i;
    return indices;
  }

  llvm::Type* type_of(DType dtype) {
    return dtype == DType::kF16 ? to_.getHalfTy() : dtype == DType::kBF16 ? to_.getInt16Ty() : to_.getFloatTy();
  }

  llvm::Value* element(DType dtype, llvm::Value* of, llvm::Value* i) {
    return to_.CreateGEP(type_of(dtype), of, to_.CreateZExt(i, to_.getInt64Ty()));
  }

  IrLanes load(DType dtype, llvm::Value* from) {
    llvm::Value* const loaded = to_.CreateLoad(type_of(dtype), from);
    return dtype == DType::kF16    ? widened_from_f16(to_, loaded)
           : dtype == DType::kBF16 ? widened_from_bf16(to_, loaded)
                                   : IrLanes{&to_, loaded};
  }

  llvm::Value* result(size_t r) { return function_->getArg(static_cast<unsigned>(loop_.inputs.size() + r)); }

  void store_result(size_t r, const IrLanes& x, llvm::Value* i) {
    const DType dtype = loop_.outputs[r];
    llvm::Value* const stored = dtype == DType::kF16    ? narrowed_to_f16(x)
                                : dtype == DType::kBF16 ? narrowed_to_bf16(x)
                                                        : x.value;
    to_.CreateStore(stored, element(dtype, result(r), i));
  }

  // Returns a constant, rounded to f32 in software: a thread that flushes denormal numbers would round to 0. If it may
  // lead to a denormal number, a move in assembly hides its value from the compiler.
  IrLanes constant(double number) {
    llvm::APFloat rounded(number);
    bool loses = false;
    rounded.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &loses);
    llvm::Constant* const value = llvm::ConstantFP::get(context_, rounded);
    return {&to_, may_lead_to_denormal(rounded.convertToFloat())
                      ? written(to_, "mov.b32 $0, $1;", "=f,f", value, to_.getFloatTy())
                      : value};
  }

  const GpuLoop& loop_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> to_;
  llvm::Function* function_ = nullptr;
  llvm::Type* index_ = nullptr;  // the type of indices
};

}  // namespace

void write_kernel(const GpuLoop& loop, llvm::Module& module) { KernelWriter(loop, module).write(); }

}  // namespace xrun::ops
