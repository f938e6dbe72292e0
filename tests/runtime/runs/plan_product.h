// The model and the legal plans over which tests of determinism run.
#pragma once

#include <algorithm>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/small_models.h"

namespace xrun::runtime::testing {

// Returns a model with everything whose result might depend on the plan: batch norm, dropout, skip connections across
// stages, and a number of classes that neither the shards nor the class blocks divide.
inline ModelOptions hard_model(PrecisionMode precision = PrecisionMode::kF32) {
  ModelOptions options;
  options.precision = precision;
  options.layers = 4;
  options.classes = 333;  // six class blocks of 64, the last with 13
  options.head = true;
  options.skips = true;
  options.dropout = 0.2;
  options.batch = 48;
  options.norm_rows = 4;  // so a batch has twelve row blocks
  options.rate = 0.2;
  return options;
}

inline std::vector<PlanChoice> all_choices(const Module& module) {
  constexpr int kKept[] = {0, 1, 100};
  std::vector<PlanChoice> choices;
  for (const int devices : {1, 2, 3, 4}) {
    for (const int threads : {1, 2, 5}) {
      for (const int stages : {1, 2, 3, 4}) {
        for (const int replicas : {1, 2, 4}) {
          for (const int micro_batches : {1, 2, 3, 4, 6, 12}) {
            for (int kind = 0; kind < kPipelineKinds; ++kind) {
              const auto pipeline = static_cast<PipelineKind>(kind);
              for (const bool recompute : {false, true}) {
                for (const int shards : {1, 2, 3, 4, 7}) {
                  for (const bool overlap : {true, false}) {
                    const PlanChoice choice{.devices = devices,
                                            .threads = std::max(threads, devices),
                                            .stages = stages,
                                            .replicas = replicas,
                                            .micro_batches = micro_batches,
                                            .pipeline = pipeline,
                                            .recompute = recompute,
                                            .shards = shards,
                                            .overlap = overlap,
                                            // Each plan keeps no block, one, or all. A separate dimension would make
                                            // the product three times as large.
                                            .kept_blocks = kKept[(stages + shards + micro_batches) % 3],
                                            .nodes = replicas == 4 && overlap ? 2 : 1,
                                            .early_buckets = replicas > 1 && (stages + shards) % 2 == 0,
                                            .warm_up = pipeline == PipelineKind::kOneFOneB ? shards % 3 : 0,
                                            .in_phases = pipeline > PipelineKind::kOneFOneB && shards % 2 == 0};
                    if (is_legal(module, choice)) {
                      choices.push_back(choice);
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  return choices;
}

// A plan and the precision of the training.
struct Case {
  PrecisionMode precision = PrecisionMode::kF32;
  PlanChoice choice;
};

inline std::vector<Case> all_cases(const ModelOptions& options, const std::vector<PrecisionMode>& precisions) {
  std::vector<Case> cases;
  for (const PlanChoice& choice : all_choices(make_module(options))) {
    for (const PrecisionMode precision : precisions) {
      cases.push_back({precision, choice});
    }
  }
  return cases;
}

// Selects cases so that every legal pair of values of two settings occurs in at least one case.
inline std::vector<Case> cover_pairs(std::vector<Case> cases, size_t at_least, uint32_t seed) {
  std::mt19937 random(seed);
  std::shuffle(cases.begin(), cases.end(), random);
  const auto values = [](const Case& of) {
    const PlanChoice& c = of.choice;
    return std::vector<int>{static_cast<int>(of.precision),
                            c.devices,
                            c.threads,
                            c.stages,
                            c.replicas,
                            c.micro_batches,
                            static_cast<int>(c.pipeline),
                            c.recompute ? 1 : 0,
                            c.shards,
                            c.overlap ? 1 : 0,
                            c.kept_blocks,
                            c.nodes,
                            c.early_buckets ? 1 : 0,
                            c.warm_up,
                            c.in_phases ? 1 : 0};
  };
  std::set<std::tuple<size_t, int, size_t, int>> seen;
  std::vector<Case> taken;
  std::vector<Case> rest;
  for (const Case& each : cases) {
    const std::vector<int> v = values(each);
    bool fresh = false;
    for (size_t a = 0; a < v.size(); ++a) {
      for (size_t b = a + 1; b < v.size(); ++b) {
        fresh = seen.insert({a, v[a], b, v[b]}).second || fresh;
      }
    }
    (fresh ? taken : rest).push_back(each);
  }
  for (size_t i = 0; i < rest.size() && taken.size() < at_least; ++i) {
    taken.push_back(rest[i]);
  }
  return taken;
}

inline std::vector<PlanChoice> choices_in(PrecisionMode precision, const std::vector<Case>& cases) {
  std::vector<PlanChoice> choices;
  for (const Case& each : cases) {
    if (each.precision == precision) {
      choices.push_back(each.choice);
    }
  }
  return choices;
}

}  // namespace xrun::runtime::testing
