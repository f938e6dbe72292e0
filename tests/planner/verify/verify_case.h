// A sound program that a test damages in one place, and the verifier's messages about the damage.
#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <string>

#include "planner/verify/verify_parts.h"
#include "planner/verify/verify_program.h"
#include "tests/planner/decisions.h"

namespace xrun::planner::testing {

struct Case {
  Module module;
  Program program;
};

// The default is two stages, two replicas and three shards over five devices, so that the program has every kind of
// instruction.
struct CaseOptions {
  ModelOptions model{.layers = 3, .classes = 900, .head = true, .skips = true};
  PipelineKind pipeline = PipelineKind::kGpipe;
  bool clip_heads = false;
  bool weighted = false;  // each row counts with the weight of its class
  bool knn = false;       // only some classes are active in a step
  bool training = true;
  bool overlap = true;
  bool scaled = false;         // the loss has a dynamic scale
  bool compress = false;       // gradients are compressed
  bool per_node = false;       // each node compresses the sum of its replicas' gradients
  Bytes bucket = 0;            // bytes of a gradient bucket; 0: the default, which is one bucket for all gradients
  bool early_buckets = false;  // the last backward pass of stage 0 is cut
  int stages = 2;
  int micro_batches = 4;
  uint64_t recompute_seed = 0;  // Layout::recompute_seed
  int replicas = 2;
  int nodes = 1;
  int devices = 5;
  int shards = 3;
  bool gpus = false;
};

inline Case make_case(const CaseOptions& options = {}) {
  Module module = make_module(options.model);
  if (options.clip_heads) {
    module.train.clip = {ClipSpec::kNorm, 1.0, true};
  }
  if (options.scaled) {
    module.train.precision = PrecisionMode::kMixedF16;
    module.train.loss_scale.kind = LossScaleSpec::kDynamic;
  }
  if (options.compress) {
    module.train.compress = {.density = 0.01, .per_node = options.per_node};
  }
  if (options.bucket > 0) {
    module.schedule.bucket = options.bucket;
  }
  if (options.weighted) {
    module.train.class_weights.kind = ClassWeightsSpec::kInverseFrequency;
    module.train.class_input = "label";
  }
  if (options.knn) {
    module.train.active_classes = {.kind = ActiveSpec::kKnn, .amount = 0.9, .neighbours = 4};
  }
  Case made{.module = options.training ? prepare_training(module) : prepare_inference(module), .program = {}};
  const Layout layout{.stages = options.stages,
                      .replicas = options.replicas,
                      .micro_batches = options.micro_batches,
                      .shards = options.shards,
                      .devices = options.devices,
                      .pipeline = options.pipeline,
                      .chunks = PipelineHint{.kind = options.pipeline}.stages_of_device(),
                      .deterministic = true,
                      .overlap = options.overlap,
                      .recompute_seed = options.recompute_seed,
                      .kept_blocks = 2,
                      .nodes = options.nodes,
                      .early_buckets = options.early_buckets,
                      .gpus = options.gpus};
  made.program = emit_layout(made.module, layout, options.training).value();
  return made;
}

inline std::string complaint(const Case& made) {
  const Status status = verify_program(made.program, made.module);
  return status.ok() ? "" : status.error().message;
}

inline Instruction& find(Program& program, const std::function<bool(const Instruction&)>& wanted) {
  for (Instruction& one : program.instructions) {
    if (wanted(one)) {
      return one;
    }
  }
  XRUN_CHECK(false, "the case has no such instruction");
}

inline Instruction& find(Program& program, Kind kind) {
  return find(program, [kind](const Instruction& one) { return one.kind == kind; });
}

inline Buffer& find_buffer(Program& program, const std::function<bool(const Buffer&)>& wanted) {
  for (Buffer& buffer : program.buffers) {
    if (wanted(buffer)) {
      return buffer;
    }
  }
  XRUN_CHECK(false, "the case has no such buffer");
}

inline Buffer& find(Program& program, Purpose purpose) {
  return find_buffer(program, [=](const Buffer& buffer) { return buffer.purpose == purpose && !(buffer.shard > 0); });
}

// Returns the first operand of an instruction with this role.
inline Operand& operand(Instruction& one, Role role) {
  for (Operand& each : one.operands) {
    if (each.role == role) {
      return each;
    }
  }
  XRUN_CHECK(false, "the instruction has no such operand");
}

inline void drop(Instruction& one, Role role) {
  std::erase_if(one.operands, [=](const Operand& each) { return each.role == role; });
}

// Derives the fields of a program that a plan file does not store.
inline void derive_all(Program& program) {
  for (Instruction& one : program.instructions) {
    derive_accesses(one);
  }
}

inline void expect_found(const std::string& words, const std::function<void(Program&)>& damage,
                         const CaseOptions& options = {}) {
  Case made = make_case(options);
  ASSERT_EQ(complaint(made), "");
  damage(made.program);
  derive_all(made.program);
  const std::string said = complaint(made);
  EXPECT_NE(said.find(words), std::string::npos) << "wanted: " << words << "\nsaid: " << said;
}

// Expects that the comparison with the module finds the damage. It runs alone, because the check of memory would also
// find it.
inline void expect_operand_found(const std::string& words, const std::function<void(Program&)>& damage,
                                 const CaseOptions& options = {}) {
  Case made = make_case(options);
  const Status sound = verify_module(made.program, made.module);
  ASSERT_TRUE(sound.ok()) << sound.error().message;
  damage(made.program);
  derive_all(made.program);
  const Status status = verify_module(made.program, made.module);
  ASSERT_FALSE(status.ok()) << words;
  EXPECT_NE(status.error().message.find(words), std::string::npos)
      << "wanted: " << words << "\nsaid: " << status.error().message;
}

}  // namespace xrun::planner::testing
