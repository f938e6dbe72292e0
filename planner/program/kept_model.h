// The part of a prepared training module that a plan file keeps, so that reports need no sources
// (docs/reference/formats.md, "Plan files").
#pragma once

#include <string>
#include <vector>

#include "graph/base/source.h"
#include "graph/layouts/kernel_facts.h"
#include "graph/module.h"
#include "planner/program/program.h"

namespace xrun::planner {

// The line of the model's text in which a span begins.
struct SourceLine {
  Span span;
  std::string file;  // path, as messages print it
  int line = 0;      // from 1
  std::string text;  // without spaces at both ends, at most kLongestLine bytes
};
inline constexpr size_t kLongestLine = 160;

// The speeds of one worker, which is a core or a GPU, in the analytic cost (KernelFacts); 0: unknown.
struct WorkerRates {
  Flops f32 = 0;  // per second
  Flops bf16 = 0;
  double bytes = 0;
};

// A module without the arguments of operators and readers. Its nodes have their costs (Node::cost), its data sources
// the memory of their readers (SourceSpec::held), and of all settings it has those that reports read. No program can be
// made of it.
struct KeptModel {
  Module module;
  WorkerRates rates;
  std::vector<SourceLine> lines;  // ordered by span: file, then begin, then end

  // Returns the line of a span; null if the plan keeps none, as for an invalid span.
  const SourceLine* line_of(const Span& span) const;
};

// Returns the kept part of `training` with the speeds of `facts`, and with the lines of all nodes and of all
// instructions of `program`. `sources` has the texts to which the spans refer.
KeptModel keep_model(const Module& training, const KernelFacts& facts, const Program& program,
                     const SourceMap& sources);

}  // namespace xrun::planner
