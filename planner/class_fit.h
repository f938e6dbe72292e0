// Finds how many classes fit: the largest head that has a plan, for each choice of active classes and of the format of
// class rows. Only the number of classes of a head varies: data, labels and all other layers stay as the text has them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/kernel_facts.h"
#include "graph/module.h"
#include "planner/machine.h"

namespace xrun::planner {

// The limit that more classes would exceed: the memory of the machine, `memory_limit` of a device, or class numbers of
// 32 bits.
enum class ClassLimit { kMemory, kNode, kDevice, kNumbers };

struct ClassFit {
  std::string rows;       // in memory: "bf16, states bf16"
  std::string active;     // "sample 10 %"
  bool of_text = false;   // the choice that the text makes
  int64_t classes = 0;    // the most that fit, to three digits; 0: none
  bool complete = false;  // false: the time was up, and more may fit
  Seconds step = 0;       // predicted, with `classes`
  Bytes memory = 0;       // of the run
  Bytes device = 0;       // of the device that needs most, in training
  Seconds graph = 0;      // to build the graph of nearest classes; 0: the choice needs none
  ClassLimit limit = ClassLimit::kMemory;
};

struct ClassFits {
  std::string head;
  int64_t classes = 0;  // of the text
  int64_t dim = 0;
  std::vector<ClassFit> choices;
  int plans = 0;  // number of plans that were made
};

struct ClassFitInput {
  const Module& training;  // prepared with its backward part
  const Module& inference;
  const KernelFacts& training_facts;
  const KernelFacts& inference_facts;
  const Machine& machine;
  bool deterministic = false;
  std::function<bool()> in_time;  // asked before each plan
};

// Finds for each choice the most classes of the trained head that has most. Plans are made for class numbers of three
// digits: for each choice the number that is found fits, and the next one does not.
// Errors: kContent XG0629 for a model without such a head; kInfeasible XG0601 where no choice has a plan for one class;
// those of plan_heads.
Result<ClassFits> fit_classes(const ClassFitInput& input);

}  // namespace xrun::planner
