// A model file that trains in a moment, for tests of whole runs.
#pragma once

#include <string>

namespace xrun::testing {

// Returns a model with 37 classes, a batch of 32, row blocks of 8 and 60 steps. It has batch norm, dropout, a skip
// connection over two layers, and synthetic data.
inline std::string tiny_model() {
  return R"(xgraph 1

option classes: int = 37

model tiny {
  input x: f32[N, 16]

  a       = x -> linear(32) -> bn -> relu
  b       = a -> linear(32) -> bn -> relu -> dropout(0.1)
  feature = relu(a + b) -> linear(24) -> bn
  output feature

  head id = cosine_classifier(feature, classes)
}

data made {
  source train = synthetic([16], classes, 640)
  source test  = synthetic([16], classes, 500, seed=2)

  x = pixels
}

train quick {
  batch     = 32
  epochs    = 3
  norm_rows = 8
  loss      = cosface(id, label, margin=0.05, scale=12)
  metrics   = [accuracy(id, label)]
  optimizer = adamw
  lr        = [warmup(0 .. 1e-2, 10 steps), cosine(1e-2 .. 0)]
}

test "size" {
  expect params(tiny) == 16 * 32 + 32 + 64 + 32 * 32 + 32 + 64 + 32 * 24 + 24 + 48 + 37 * 24
}
)";
}

}  // namespace xrun::testing
