// Reasons: why a plan has its settings, as values. planner/report/reason_text.h makes their texts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/units.h"
#include "graph/settings/head_def.h"
#include "graph/settings/schedule_spec.h"

namespace xrun::planner {

// A setting that was compared with the plan's: the fastest of those that make one decision differently.
struct Rival {
  enum class Verdict : uint8_t { kSlower, kNoFaster, kDoesNotFit, kNotCompared };

  int stages = 1;
  int replicas = 1;
  int micro_batches = 1;
  PipelineHint pipeline = {};
  Verdict verdict = Verdict::kSlower;
  bool is_estimate = false;  // no program was made, so time and memory are estimates
  Seconds step = 0;
  Bytes memory = 0;  // memory of the largest device; in an estimate, of the largest stage
  double ratio = 0;  // time of a step divided by the time of the plan's step, minus 1; both programs or both estimates
  double idle = 0;   // fraction of a step in which devices are idle
};

// The state of a head: class rows, optimizer states, and the logits that exist at one time.
struct HeadState {
  Bytes bytes = 0;      // bytes of class rows and optimizer states
  bool mapped = false;  // whether these are in a file
  RowFormat weights = RowFormat::kF32;
  std::optional<RowFormat> states;  // format of the optimizer states; nullopt: there are no states
  int64_t active = 0;               // classes for which a step has logits
  bool is_subset = false;           // the active classes are not all classes
  int64_t kept = 0;                 // classes whose logits are kept for the backward pass
  Bytes logits = 0;                 // kept logits; if no logits are kept, all logits of a step
};

// A proposal for a smaller row block, with which more devices would have work.
struct SmallerBlock {
  int64_t batch = 0;   // rows of the batch
  int64_t blocks = 1;  // row blocks of the batch in the plan
  int64_t norm_rows = 0;
  int devices = 1;
  int used = 1;          // number of devices in use with the smaller block
  bool idle = true;      // whether the plan has idle devices
  double faster = 0;     // predicted gain, as a fraction of a step
  bool coupled = false;  // whether a batch norm would take its statistics from fewer rows
};

// The texts of a reason in a plan file that has no values.
struct StoredReason {
  std::string key;
  std::string value;
  std::string text;
};

// The texts of a compared program in a plan file that has no values for them.
struct StoredAlternative {
  std::string settings;
  std::string note;
};

// A decision of the search and its reason; reports print it as one line of "why".
struct Reason {
  enum class Key : uint8_t {
    kStored,
    kStages,
    kReplicas,
    kMicroBatches,
    kShards,
    kRecompute,
    kPipeline,
    kGranularity,
  };
  // Plan files store positions in this list and in the other enumerations, so new values are added at the end.
  enum class Cause : uint8_t {
    kNothingElse,       // no other value was compared
    kAskedFor,          // a hint of the text decides
    kOneDevice,         // there is only one device
    kRival,             // `rival` is not better
    kReplicasOnAll,     // `count` replicas, a hint, leave no devices for other stages
    kStagesOnAll,       // the stages leave no devices for more replicas
    kPins,              // the pins leave no other cuts
    kNoOtherCuts,       // the layers cannot be cut otherwise
    kMicroBatches,      // no other number divides the `count` micro-batches, a hint
    kPartials,          // no other number divides the `count` partials of gradients
    kRowBlocks,         // no other number divides row blocks and devices
    kHeadState,         // `head_state`
    kActivationsFit,    // nothing needs to be computed again; `count` faster settings do not fit
    kCheapestThatFits,  // the activations fit only if some are computed again; no cheaper choice fits
    kFits,              // they fit only if some are computed again; a cheaper choice may fit
  };

  Key key = Key::kStored;
  std::string head = {};  // name of the head, for kShards and kGranularity
  // The chosen number: for kRecompute that of layers that run again, for kPipeline that of the PipelineKind, for
  // kGranularity 1 if a head pass takes a whole step and 0 if it takes a micro-batch.
  int64_t value = 0;
  int64_t of = 0;    // for kRecompute the number of all layers, for kPipeline the argument in the text
  int64_t rows = 0;  // for kMicroBatches the rows of each micro-batch
  Cause cause = Cause::kNothingElse;
  int64_t count = 0;  // the number to which the cause refers
  std::optional<Rival> rival = {};
  std::optional<HeadState> head_state = {};
  std::optional<SmallerBlock> smaller_block = {};
  StoredReason stored = {};  // for kStored
};

// The certificate of a plan: a lower bound of the steps of all plans of some kinds (docs/internals/algorithms.md, "The
// bound of a step"), and what limits the step of the plan.
struct Certificate {
  // The limit that makes the step of the plan as long as it is.
  enum class Limit : uint8_t {
    kForward,   // the forward passes of `stage`
    kBackward,  // its backward passes
    kHead,      // the head passes
    kCores,     // all cores are busy with the step, or with the step and its data
    kMemory,    // `count` layers run again, so that the plan fits
    kLoader,    // reading and transforming samples
  };

  Seconds bound = 0;  // no plan of these kinds has a shorter predicted step
  // The kinds: contiguous stages in the order of the layers, with these numbers of stages, replicas and micro-batches.
  std::vector<int> stages = {};
  std::vector<int> replicas = {};
  std::vector<int> micro_batches = {};
  std::array<bool, kPipelineKinds> pipelines = {};  // index: PipelineKind; whether the kinds have plans with it

  Limit limit = Limit::kForward;
  int stage = 0;
  int count = 0;
  Seconds busy = 0;  // time of the passes that are the limit in a step, or of the loader on all cores

  bool complete = true;  // false: --search-time has ended the search
  int compared = 0;      // programs that were made by a search that was ended
};

}  // namespace xrun::planner
