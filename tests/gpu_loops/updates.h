// The update rules of all optimizers of the library, for tests of their kernels.
#pragma once

#include <regex>
#include <string>
#include <vector>

#include "lang/frontend.h"
#include "ops/op.h"
#include "tests/support/golden.h"

namespace xrun::ops {

// Calls of optimizers as in a model file: each optimizer of lang/std/optimizers.xgraph with its defaults, and forms of
// sgd and adamw.
inline std::vector<std::string> optimizer_calls() {
  std::vector<std::string> calls{"sgd(momentum=0.9)", "sgd(momentum=0.9, weight_decay=5e-4, nesterov=true)",
                                 "adamw(weight_decay=0.05)", "lars(weight_decay=1e-4)", "lamb(weight_decay=0.02)"};
  const std::string library = test::read_source_file("lang/std/optimizers.xgraph");
  const std::regex declaration("(^|\n)optimizer (\\w+)\\(");
  for (std::sregex_iterator at(library.begin(), library.end(), declaration), end; at != end; ++at) {
    calls.push_back((*at)[2].str() + "()");
  }
  return calls;
}

// The call with its rule, as the frontend makes it.
inline CallSpec call_of(const std::string& optimizer) {
  SourceMap sources;
  Diagnostics diagnostics;
  const auto file =
      lang::check_text("test.xgraph",
                       "xgraph 1\nmodel m {\n  input x: f32[N, 8]\n\n  y = x -> linear(3)\n  output y\n}\n"
                       "data d {\n  source train = synthetic([8], 3, 640)\n\n  x = pixels\n}\n"
                       "train t {\n  batch     = 64\n  epochs    = 1\n  loss      = softmax_ce(y, label)\n"
                       "  lr        = 0.1\n  optimizer = " +
                           optimizer + "\n}\n",
                       sources, diagnostics, {.ops = &ops::registry()});
  if (!file) {
    ADD_FAILURE() << optimizer << " is not accepted";
    for (const Diagnostic& diagnostic : diagnostics.all()) {
      ADD_FAILURE() << render(diagnostic, sources);
    }
    return {};
  }
  return file->module.train.optimizer;
}

}  // namespace xrun::ops
