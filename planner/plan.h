// Plan: the planner's answer: a Program, what it will cost, and why this one.
#pragma once

#include <string>
#include <vector>

#include "graph/kernel_facts.h"
#include "graph/module.h"
#include "planner/machine.h"
#include "planner/program.h"

namespace xrun::planner {

// A choice of the search and its reason: one line of "why".
struct Reason {
  std::string choice;  // "stages = 1"
  std::string text;
};

struct Alternative {
  std::string text;  // "stages = 2, micro_batches = 4"
  Seconds step = 0;
  Bytes memory = 0;  // largest device
  std::string note;  // what it loses
  int stages = 1;    // the settings of the text
  int replicas = 1;
  int micro_batches = 1;
  int recomputed = 0;  // layers
};

struct Prediction {
  Seconds step = 0;
  double images_per_second = 0;
  double bubble = 0;  // share of a step in which devices are idle, fill and drain included
  double imbalance = 0;
  Seconds exposed_comm = 0;
};

// The cost of a choice of active classes and of the format of class rows, on the devices and with the settings of a
// plan.
struct HeadCost {
  std::string text;     // "sample 10 %, f32"
  bool chosen = false;  // by the text
  bool fits = true;
  Seconds step = 0;
  Bytes memory = 0;  // of the run
  Bytes moved = 0;   // in a step: class rows, states of the optimizer and kept logits, as passes read and write them
};

// A build of the graph of nearest classes of a head: how long it takes on all cores, with nothing beside it.
struct GraphBuild {
  int head = 0;          // in Graph::heads
  bool is_exact = true;  // whether the text asks for the exact graph
  Seconds exact = 0;
  Seconds approximate = 0;  // its recall is measured, too
  Seconds time() const { return is_exact ? exact : approximate; }
};

// The program of the steps with `units` units of samples (graph/step_sizes.h), where the batch grows.
struct StepProgram {
  int64_t units = 1;
  Program program;
  Seconds step = 0;  // predicted
};

struct Plan {
  std::string id;  // first 8 hex digits of a digest over the contents
  std::string model;
  Machine machine;
  Program training;   // of a step; where the batch grows, of a step of the last size
  Program inference;  // forward only, with the same stages and shards; pads the last row block
  std::vector<std::pair<std::string, std::string>> options;  // flags and --set that made it
  std::vector<SourceDigest> sources;
  std::string math_digest;
  std::string facts_digest;
  std::string isa;
  Prediction predicted;
  int64_t samples = 0;  // of an epoch, where the data could be counted; else 0
  Bytes decoding = 0;   // held by a worker that decodes pictures, where data could be read; plan files do not keep it
  std::vector<Reason> why;
  std::vector<Alternative> alternatives;
  // Where the batch grows, the programs of smaller steps, in ascending order; plan files do not keep them
  // (planner/step_programs.h). All have the same arenas, with weights and states in the same places.
  std::vector<StepProgram> smaller;
  std::vector<GraphBuild> graphs;  // plan files do not keep them; complete_plan makes them again
  // Costs of choices for the head `costs_of`, where it is large (explain_head_choices); plan files do not keep them.
  std::string costs_of;
  std::vector<HeadCost> costs;
};

}  // namespace xrun::planner
