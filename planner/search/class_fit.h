// Finds how many classes fit: the largest head that has a plan, for each choice of active classes and of the format of
// class rows. Only the number of classes of a head varies; data, labels and all other layers stay as in the text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/layouts/kernel_facts.h"
#include "graph/module.h"
#include "planner/program/head_choice.h"
#include "planner/program/machine.h"

namespace xrun::planner {

// The limit that more classes would exceed: the memory of the machine, `memory_limit` of a device, or class numbers of
// 32 bits.
enum class ClassLimit { kMemory, kNode, kDevice, kNumbers };

struct ClassFit {
  HeadChoice choice = {};
  int states = 0;         // number of optimizer states
  bool of_text = false;   // whether this is the choice of the model text
  int64_t classes = 0;    // the largest number of classes that fits, to three digits; 0: not even one class fits
  bool complete = false;  // false: the time ran out, and more may fit
  Seconds step = 0;       // predicted time of a step with `classes` classes
  Bytes memory = 0;       // memory of the run
  Bytes device = 0;       // memory of the device that needs the most, in training
  Seconds graph = 0;      // time to build the graph of nearest classes; 0: the choice needs no graph
  ClassLimit limit = ClassLimit::kMemory;
};

struct ClassFits {
  std::string head;
  int64_t classes = 0;  // number of classes in the model text
  int64_t dim = 0;
  std::vector<ClassFit> choices;
  int plans = 0;  // number of plans made by the search
};

struct ClassFitInput {
  const Module& training;  // prepared with its backward part
  const Module& inference;
  const KernelFacts& training_facts;
  const KernelFacts& inference_facts;
  const Machine& machine;
  bool deterministic = false;
  std::function<bool()> in_time;  // called before each plan; false ends the search
};

// Finds for each choice the largest number of classes that fits in the largest trained head. Plans are made only for
// numbers with three significant digits: the number found has a plan that fits, and the next one has none. Errors:
// kContent XG0629 for a model without a trained head; kInfeasible XG0601 if no choice has a plan for one class; those
// of plan_heads.
Result<ClassFits> fit_classes(const ClassFitInput& input);

}  // namespace xrun::planner
