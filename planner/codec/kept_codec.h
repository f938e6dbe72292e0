// Converts the kept part of a model (planner/program/kept_model.h) to FlatBuffers and back.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "plan_generated.h"
#include "planner/codec/counted_reader.h"
#include "planner/program/plan.h"

namespace xrun::planner {

flatbuffers::Offset<fb::Model> encode_kept(flatbuffers::FlatBufferBuilder& builder, const KeptModel& kept);

// Reads the fields of a plan that only reports need. The result is sound: all ids lie in the graph, each node has an
// output and an operator of `ops`, and sizes and times are neither negative nor so large that their sums overflow.
class KeptReader : public CountedReader {
 public:
  // `ops` may be null; then the model is not read.
  KeptReader(size_t bytes, const OpRegistry* ops) : CountedReader(bytes), ops_(ops) {}

  // Sets Plan::kept, Plan::graphs and the figures of Plan::smaller. `name` is for messages. REQUIRES: Plan::model is
  // set. Errors: kContent XG0621; XG0624 for an operator that is not among `ops`.
  Status read(const fb::Plan& in, const std::string& name, Plan& plan);

 private:
  KeptModel read_model(const fb::Model& in);
  void read_builds(const fb::Plan& in, Plan& plan);
  TensorType type_of(const fb::ModelType& in);
  void read_values(const fb::Model& in, Graph& graph);
  void read_nodes(const fb::Model& in, Graph& graph);
  void read_params(const fb::Model& in, Graph& graph);
  void read_lines(const fb::Model& in, KeptModel& kept);
  void read_settings(const fb::Model& in, Module& module);
  void read_train(const fb::ModelTrain& in, TrainSpec& train);
  std::vector<std::string> texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* list);
  TrainSpan length(const fb::Length* in);

  const OpRegistry* ops_;
  std::string unknown_op_;  // the first operator of the file that is not among `ops`; empty if all are
};

}  // namespace xrun::planner
