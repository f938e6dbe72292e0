// Module: the meaning of one run, as the graph of the chosen model with its loss and metrics, and the specs.
#pragma once

#include <string>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/graph.h"
#include "graph/settings/specs.h"

namespace xrun {

struct SourceDigest {
  std::string path;
  std::string sha256;
};

struct Module {
  std::string model;  // name of the model
  Graph graph;        // forward with heads, loss and metrics; the backward part is added by graph/passes/pipeline.h
  DataSpec data;
  TrainSpec train;
  bool has_data = false;
  bool has_train = false;
  ClusterSpec cluster;
  ScheduleSpec schedule;
  std::vector<SourceDigest> sources;
  std::vector<Diagnostic> not_yet;  // features that are checked, but that this edition cannot plan or train
  // SHA-256, in hex, of the elaborated model, data and train, without eval, log and paths (docs/reference/language.md,
  // "What holds everywhere").
  std::string math_digest;
};

}  // namespace xrun
