// Plan: the result of the planner. It has the programs for training and inference, their predicted cost, and the
// reasons for the choices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/layouts/kernel_facts.h"
#include "graph/module.h"
#include "planner/program/head_choice.h"
#include "planner/program/kept_model.h"
#include "planner/program/machine.h"
#include "planner/program/program.h"
#include "planner/program/reason.h"

namespace xrun::planner {

// Another program that was compared with the plan.
struct Alternative {
  int stages = 1;
  int replicas = 1;
  int micro_batches = 1;
  PipelineHint pipeline = {};
  int head_devices = 0;        // Setting::head_devices
  bool one_head_pass = false;  // Setting::one_head_pass
  std::string head = {};       // the head whose granularity is a part of the setting; empty: the pipeline decides it
  int recomputed = 0;          // number of layers that run again in the backward pass
  Seconds step = 0;
  Bytes memory = 0;                              // memory of the largest device
  double ratio = 0;                              // time of a step divided by the time of the plan's step, minus 1
  double idle = 0;                               // fraction of a step in which devices are idle
  std::optional<StoredAlternative> stored = {};  // texts, for a plan file that lacks the values
  bool is_estimate = false;                      // no program was made, so time and memory are estimates
};

struct Prediction {
  Seconds step = 0;
  double images_per_second = 0;
  double bubble = 0;     // fraction of a step in which the busiest device waits for others or for exchanges
  double imbalance = 0;  // fraction of a step in which devices have less to compute than it, in the mean
  Seconds exposed_comm = 0;
  Seconds loader = 0;  // processor time to read and transform the samples of a step
};

// The cost of a choice of active classes and of the format of class rows, on the devices and with the settings of a
// plan.
struct HeadCost {
  HeadChoice choice = {};
  int states = 0;       // number of optimizer states
  bool chosen = false;  // whether this is the choice of the model text
  bool fits = true;
  Seconds step = 0;
  Bytes memory = 0;  // memory of a run with this choice
  Bytes moved = 0;   // bytes of class rows, optimizer states and kept logits that a step reads and writes
};

// A build of the graph of nearest classes of a head. Its times assume all cores and no concurrent work.
struct GraphBuild {
  int head = 0;          // index in Graph::heads
  bool is_exact = true;  // whether the text asks for the exact graph
  Seconds exact = 0;
  Seconds approximate = 0;  // time of an approximate build, including measuring its recall
  Seconds time() const { return is_exact ? exact : approximate; }
};

// The user's times of layers with which a plan was made, in place of those of the cost model.
struct UsedTimes {
  std::string file;    // absolute path
  std::string sha256;  // digest of the file
  int64_t rows = 1;    // rows for which the times are
  int layers = 0;      // number of layers in the file
  int nodes = 0;       // number of forward nodes of these layers
  int all_nodes = 0;   // number of forward nodes of all stages
};

// The program of the steps that take `units` units of samples (graph/settings/step_sizes.h), in a run whose batch
// grows.
struct StepProgram {
  int64_t units = 1;
  Program program;
  Seconds step = 0;  // predicted time of a step
};

struct Plan {
  std::string id;  // first 8 hex digits of a digest over the contents
  std::string model;
  Machine machine;
  Program training;   // program of a step; if the batch grows, of a step of the last size
  Program inference;  // forward only, with equal stages and shards; pads the last row block
  std::vector<std::pair<std::string, std::string>> options;  // flags and --set with which the plan was made
  std::vector<SourceDigest> sources;
  std::string math_digest;
  std::string facts_digest;
  std::string isa;
  Prediction predicted;
  int64_t samples = 0;  // per epoch, if the data could be counted; else 0
  std::optional<UsedTimes> layer_times;
  Bytes decoding = 0;  // memory of a worker that decodes pictures, if the data could be read; not in plan files
  std::vector<Reason> why;
  std::vector<Alternative> alternatives;
  // The fastest plans with another number of stages or replicas, or another pipeline, one of each kind, fastest first.
  std::vector<Alternative> other_kinds;
  std::optional<Certificate> certificate;  // nullopt: an earlier version of xrun made the plan
  // The programs of smaller steps, in ascending order, if the batch grows (planner/step_programs.h). All have equal
  // arenas, with weights and states at equal places. Plan files keep of each only the numbers of units and samples, the
  // time, and the used bytes in one arena, for reports; complete_plan makes the programs again.
  std::vector<StepProgram> smaller;
  std::vector<GraphBuild> graphs;
  std::optional<KeptModel> kept;  // set before a plan is saved; an earlier version's file has none
  // The costs of other choices for the head named `costs_of`, if it is large (explain_head_choices); plan files do not
  // keep them.
  std::string costs_of;
  std::vector<HeadCost> costs;
};

}  // namespace xrun::planner
