// The function has an entry block and a loop over groups of sixteen elements. Constants and operations that depend only
// on uniform inputs are written to the entry block (before_), all others to the loop (body_). The operations themselves
// are those of the interpreter (write_operation.h).
// Tests: tests/ops/jit/element_loop_test.cpp, tests/ops/jit/exhaustive_test.cpp
#include "ops/jit/plugin/write_loop.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <vector>

#include "ops/jit/plugin/write_operation.h"

namespace xrun::ops {
namespace {

llvm::Type* lanes_of(llvm::Type* type) { return llvm::FixedVectorType::get(type, kLanes); }

class LoopWriter {
 public:
  LoopWriter(const LoopForm& form, Isa isa, llvm::Module& module)
      : form_(form), isa_(isa), context_(module.getContext()), before_(context_), body_(context_) {
    llvm::Type* const pointer = before_.getPtrTy();
    auto* const type = llvm::FunctionType::get(before_.getVoidTy(), {pointer, pointer, before_.getInt64Ty()}, false);
    function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kLoopSymbol, module);
    function_->addFnAttr(llvm::Attribute::NoUnwind);
    function_->addFnAttr("prefer-vector-width", "512");
  }

  // Writes a loop that tests its condition at the end. The caller ensures that there is at least one group of sixteen.
  void write() {
    auto* const entry = llvm::BasicBlock::Create(context_, "entry", function_);
    auto* const loop = llvm::BasicBlock::Create(context_, "loop", function_);
    auto* const end = llvm::BasicBlock::Create(context_, "end", function_);
    before_.SetInsertPoint(entry);
    body_.SetInsertPoint(loop);
    llvm::PHINode* const i = body_.CreatePHI(body_.getInt64Ty(), 2);
    const std::vector<llvm::PHINode*> sums = load_sums();
    load_inputs(i);
    const std::vector<IrLanes> results = write_expr();
    std::vector<llvm::Value*> next_sums;
    if (form_.squares) {
      next_sums = add_squares(results, sums);
    } else {
      store_results(results, i);
    }
    llvm::Value* const next = body_.CreateAdd(i, body_.getInt64(kLanes));
    body_.CreateCondBr(body_.CreateICmpSLT(next, function_->getArg(2)), loop, end);
    i->addIncoming(before_.getInt64(0), entry);
    i->addIncoming(next, loop);
    before_.CreateBr(loop);
    llvm::IRBuilder<> after(end);
    for (size_t r = 0; r < sums.size(); ++r) {
      sums[r]->addIncoming(next_sums[r], loop);
      after.CreateAlignedStore(next_sums[r], places_of_sums_[r], llvm::Align(8));
    }
    after.CreateRetVoid();
  }

 private:
  // Loads an address from the list of inputs or of outputs.
  llvm::Value* operand(unsigned list, size_t index) {
    llvm::Value* const place = before_.CreateConstGEP1_64(before_.getPtrTy(), function_->getArg(list), index);
    return before_.CreateLoad(before_.getPtrTy(), place);
  }

  void load_inputs(llvm::Value* i) {
    llvm::Type* const f32 = before_.getFloatTy();
    inputs_.resize(form_.inputs.size());
    for (const ScalarNode& node : form_.expr.nodes()) {
      const auto k = static_cast<size_t>(node.input);
      if (node.op != ScalarOp::kInput) {
        continue;
      }
      llvm::Value* const from = operand(0, k);
      switch (form_.inputs[k]) {
        case LoopInput::kUniform: {
          llvm::Value* const number = before_.CreateAlignedLoad(f32, from, llvm::Align(4));
          inputs_[k] = {&before_, before_.CreateVectorSplat(kLanes, number)};
          break;
        }
        case LoopInput::kF32: {
          llvm::Value* const at = body_.CreateGEP(f32, from, i);
          inputs_[k] = {&body_, body_.CreateAlignedLoad(lanes_of(f32), at, llvm::Align(4))};
          break;
        }
        case LoopInput::kF16: {
          llvm::Type* const half = body_.getHalfTy();
          llvm::Value* const at = body_.CreateGEP(half, from, i);
          llvm::Value* const narrow = body_.CreateAlignedLoad(lanes_of(half), at, llvm::Align(2));
          inputs_[k] = widened_from_f16(body_, narrow);
          break;
        }
        case LoopInput::kBF16: {
          llvm::Type* const half = body_.getInt16Ty();
          llvm::Value* const at = body_.CreateGEP(half, from, i);
          inputs_[k] = widened_from_bf16(body_, body_.CreateAlignedLoad(lanes_of(half), at, llvm::Align(2)));
          break;
        }
      }
    }
  }

  // Loads the running sums of squares (LoopForm::squares), which stay in registers during the loop.
  std::vector<llvm::PHINode*> load_sums() {
    std::vector<llvm::PHINode*> sums;
    for (size_t r = 0; form_.squares && r < form_.outputs.size(); ++r) {
      llvm::Type* const type = lanes_of(before_.getDoubleTy());
      places_of_sums_.push_back(operand(1, r));
      sums.push_back(body_.CreatePHI(type, 2));
      sums.back()->addIncoming(before_.CreateAlignedLoad(type, places_of_sums_[r], llvm::Align(8)),
                               before_.GetInsertBlock());
    }
    return sums;
  }

  // Adds the squares of the results to the running sums, in f64, in which squares of f32 are exact.
  std::vector<llvm::Value*> add_squares(const std::vector<IrLanes>& results, const std::vector<llvm::PHINode*>& sums) {
    std::vector<llvm::Value*> next;
    for (size_t r = 0; r < results.size(); ++r) {
      llvm::Value* const wide = body_.CreateFPExt(results[r].value, sums[r]->getType());
      next.push_back(body_.CreateFAdd(sums[r], body_.CreateFMul(wide, wide)));
    }
    return next;
  }

  // Writes the operations of the expression; those that depend only on uniform inputs are placed before the loop.
  std::vector<IrLanes> write_expr() {
    const std::vector<ScalarNode>& nodes = form_.expr.nodes();
    std::vector<IrLanes> values(nodes.size());
    for (size_t n = 0; n < nodes.size(); ++n) {
      const ScalarNode& node = nodes[n];
      if (node.op == ScalarOp::kInput) {
        values[n] = inputs_[static_cast<size_t>(node.input)];
      } else if (node.op == ScalarOp::kConstant) {
        values[n] = constant(static_cast<float>(node.value));  // rounded to f32 as in the interpreter
      } else {
        values[n] = write_node(node, values);
      }
    }
    std::vector<IrLanes> results;
    for (const ScalarId id : form_.expr.results()) {
      results.push_back(values[static_cast<size_t>(id.index)]);
    }
    return results;
  }

  // Returns a constant in all lanes. If it may lead to a denormal number, it is read from memory, which hides its value
  // from the compiler.
  IrLanes constant(float number) {
    llvm::Type* const f32 = before_.getFloatTy();
    llvm::Constant* const value = llvm::ConstantFP::get(f32, static_cast<double>(number));
    if (!may_lead_to_denormal(number)) {
      return {&before_, llvm::ConstantFP::get(lanes_of(f32), static_cast<double>(number))};
    }
    llvm::Value* const place = before_.CreateAlloca(f32);
    before_.CreateAlignedStore(value, place, llvm::Align(4), true);
    return {&before_, before_.CreateVectorSplat(kLanes, before_.CreateAlignedLoad(f32, place, llvm::Align(4), true))};
  }

  IrLanes write_node(const ScalarNode& node, const std::vector<IrLanes>& values) {
    IrLanes args[3];
    bool varies = false;
    for (size_t k = 0; k < 3; ++k) {
      args[k] = values[static_cast<size_t>(node.args[node.args[k].valid() ? k : 0].index)];
      varies = varies || args[k].to == &body_;
    }
    for (IrLanes& arg : args) {
      arg.to = varies ? &body_ : &before_;
    }
    if (node.op == ScalarOp::kBf16) {
      return widened_from_bf16(*args[0].to, bf16_bits(node.args[0], args[0]));
    }
    return write_operation(node.op, args[0], args[1], args[2]);
  }

  // Whether a value cannot be a denormal number because its operation flushes these to 0 (compute_modes.h).
  bool is_flushed(ScalarId id) const {
    const ScalarOp op = form_.expr.nodes()[static_cast<size_t>(id.index)].op;
    return op == ScalarOp::kAdd || op == ScalarOp::kSub || op == ScalarOp::kMul || op == ScalarOp::kDiv;
  }

  // Rounds sixteen numbers to bf16. VCVTNEPS2BF16 rounds like the other operations, except that denormal numbers become
  // 0.
  llvm::Value* bf16_bits(ScalarId id, const IrLanes& x) {
    if (isa_ >= Isa::kAvx512Bf16 && is_flushed(id)) {
      llvm::Value* const narrow =
          x.to->CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {x.value});
      return x.to->CreateBitCast(narrow, lanes_of(x.to->getInt16Ty()));
    }
    return narrowed_to_bf16(x);
  }

  void store_results(const std::vector<IrLanes>& results, llvm::Value* i) {
    for (size_t r = 0; r < results.size(); ++r) {
      llvm::Value* const to = operand(1, r);
      if (form_.outputs[r] == DType::kBF16) {
        llvm::Value* const bits = bf16_bits(form_.expr.results()[r], {&body_, results[r].value});
        store(bits, body_.CreateGEP(body_.getInt16Ty(), to, i), 2);
      } else if (form_.outputs[r] == DType::kF16) {
        store(narrowed_to_f16({&body_, results[r].value}), body_.CreateGEP(body_.getHalfTy(), to, i), 2);
      } else {
        store(results[r].value, body_.CreateGEP(body_.getFloatTy(), to, i), 4);
      }
    }
  }

  // Stores the lanes; `element` is the number of bytes per element.
  void store(llvm::Value* lanes, llvm::Value* to, uint64_t element) {
    llvm::StoreInst* const made =
        body_.CreateAlignedStore(lanes, to, llvm::Align(form_.streams ? element * kLanes : element));
    if (form_.streams) {
      llvm::Metadata* const one = llvm::ConstantAsMetadata::get(body_.getInt32(1));
      made->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context_, one));
    }
  }

  const LoopForm& form_;
  const Isa isa_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> before_;  // places instructions before the loop
  llvm::IRBuilder<> body_;
  llvm::Function* function_ = nullptr;
  std::vector<IrLanes> inputs_;
  std::vector<llvm::Value*> places_of_sums_;
};

}  // namespace

void write_loop(const LoopForm& form, Isa isa, llvm::Module& module) { LoopWriter(form, isa, module).write(); }

}  // namespace xrun::ops
