// Tests: tests/cuda/update_launches_test.cpp
#include "runtime/device/cuda/update_operands.h"

#include <algorithm>

#include "graph/base/check.h"
#include "graph/layouts/row_updates.h"

namespace xrun::cuda {
namespace {

using planner::Instruction;
using planner::Operand;
using planner::Role;

CUdeviceptr address(const runtime::Binder& binder, const Operand& operand) {
  return reinterpret_cast<CUdeviceptr>(binder.at(operand));
}

UpdateTensor tensor_of(const Module& module, const ops::OptimizerForm& form, const std::vector<ParamId>& by_row,
                       const Operand& gradient) {
  const Graph& graph = module.graph;
  const TensorType& type = graph.value(graph.param(gradient.param).value).type;
  UpdateTensor tensor{.param = gradient.param,
                      .elements = type.elements(0, 0),
                      .partial = gradient.step,
                      .rule = runtime::rule_of(module.train, form, graph, gradient.param)};
  tensor.row = std::ranges::binary_search(by_row, gradient.param) ? tensor.elements / type.dims[0] : 0;
  return tensor;
}

UpdateFold& fold_of(const Graph& graph, NodeId id, UpdateOperands& all) {
  if (all.folds.empty() || all.folds.back().node != id) {
    const Node& node = graph.node(id);
    all.folds.push_back({id, std::vector<uint64_t>(node.inputs.size()), std::vector<uint64_t>(node.outputs.size())});
  }
  return all.folds.back();
}

CUdeviceptr weight_of(const UpdateOperands& all, ParamId param) {
  const auto tensor = std::ranges::find_if(all.tensors, [&](const UpdateTensor& one) { return one.param == param; });
  XRUN_CHECK(tensor != all.tensors.end(), "a prepared weight without its plain form");
  return tensor->weight;
}

}  // namespace

UpdateOperands update_operands(const Module& module, const runtime::Binder& binder, const ops::OptimizerForm& form,
                               const Instruction& instruction) {
  const std::vector<ParamId> by_row = params_updated_by_row(module.graph);
  UpdateOperands all;
  // The operands of a weight follow the weight's gradient.
  for (const Operand& operand : instruction.operands) {
    const CUdeviceptr at = address(binder, operand);
    const auto index = static_cast<size_t>(operand.index);
    switch (operand.role) {
      case Role::kGradient:
        all.tensors.push_back(tensor_of(module, form, by_row, operand));
        all.tensors.back().gradient = at;
        break;
      case Role::kWeight:
        all.tensors.back().weight = at;
        break;
      case Role::kState:
        all.tensors.back().states[index] = at;
        break;
      case Role::kNorms:
        if (operand.param.valid()) {
          all.tensors.back().norms = at;
        }
        break;
      case Role::kRunningState:
        fold_of(module.graph, operand.node, all).inputs[index] = at;
        break;
      case Role::kStatistics:
        fold_of(module.graph, operand.node, all).outputs[index] = at;
        break;
      case Role::kPrepared:
        all.prepares.push_back({operand.node, operand.index, weight_of(all, operand.param), at});
        break;
      case Role::kScratch:  // the kernels that prepare weights on a GPU need none
        break;
      default:
        XRUN_CHECK(false, std::string("an update on a GPU has no use for ") + name_of(operand.role));
    }
  }
  return all;
}

std::vector<TermSum> term_sums(const runtime::Binder& binder, const Instruction& instruction) {
  std::vector<TermSum> sums;
  std::vector<int> places;  // replicas or reading nodes that the terms of the last sum come from, ascending
  for (const Operand& operand : instruction.operands) {
    const bool own = operand.role == Role::kSum;
    const CUdeviceptr address_of_term = address(binder, operand);
    if (own) {
      sums.push_back({{}, address_of_term, operand.bytes / static_cast<Bytes>(sizeof(float))});
      places.clear();
    }
    const int place = own && operand.index < 0 ? instruction.replica : operand.index;
    const auto at = std::ranges::lower_bound(places, place) - places.begin();
    places.insert(places.begin() + at, place);
    sums.back().terms.insert(sums.back().terms.begin() + at, address_of_term);
  }
  return sums;
}

}  // namespace xrun::cuda
