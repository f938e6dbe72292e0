// The symbolic run as a whole: the loop over the instructions.
#include "planner/verify/symbolic_run.h"

#include "planner/verify/verify_program.h"

namespace xrun::planner {

SymbolicRun::SymbolicRun(const Program& program, const Module& module)
    : SymbolicState(program, module),
      owners_(program, module),
      norms_(norm_layout(module, program.senders())),
      states_(static_cast<int>(optimizer_states(module).size())) {
  for (const HeadPlan& head : program.heads) {
    parts_.push_back(shard_parts(program, graph_, head));
  }
  for (size_t p = 0; p < graph_.param_grads.size(); ++p) {
    if (graph_.param_grads[ParamId(p)].valid()) {
      param_of_[graph_.param_grads[ParamId(p)]] = ParamId(p);
      trained_.insert(weight_of(ParamId(p)));
    }
  }
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[NodeId(n)];
    for (const ValueId input : node.inputs) {
      const ParamId param = graph_.value(input).param;
      const bool state = param.valid() && !graph_.param(param).trained;
      if (state && node.op->folds_states && node.phase == Phase::kForward) {
        folded_[param].push_back(NodeId(n));
      }
    }
  }
}

Status SymbolicRun::run() {
  start();
  const std::span<const Instruction> all = program_.instructions;
  for (size_t first = 0; first < all.size();) {
    size_t last = first + 1;
    while (all[first].group >= 0 && last < all.size() && all[last].group == all[first].group) {
      ++last;
    }
    begin(all[first]);
    XRUN_TRY(communicates(one_->kind) ? exchange(all.subspan(first, last - first)) : step());
    XRUN_TRY(check_work());
    first = last;
  }
  return check_end();
}

Status SymbolicRun::step() {
  switch (one_->kind) {
    case Kind::kForward:
    case Kind::kBackward:
      return stage_pass();
    case Kind::kHeadSelect:
      return select();
    case Kind::kHeadForward:
    case Kind::kHeadBackward:
    case Kind::kHeadNorms:
    case Kind::kHeadUpdate:
      return shard_pass();
    case Kind::kHeadMass:
      return measure_mass();
    case Kind::kReduceStats:
      return reduce_statistics();
    case Kind::kReduceDx:
    case Kind::kSumDx:
      return sum_dx();
    case Kind::kFoldPartials:
    case Kind::kSumReplicas:
    case Kind::kSumTied:
    case Kind::kCompress:
    case Kind::kNorm:
    case Kind::kUpdate:
      return end_of_step();
    case Kind::kCopy:
      return copy();
    default:
      return at_fault("is of no kind that computes");
  }
}

Status verify_values(const Program& program, const Module& module) { return SymbolicRun(program, module).run(); }

}  // namespace xrun::planner
