// A model file whose steps take long enough to be timed, for tests of slow ranks.
#pragma once

#include <string>

namespace xrun::testing {

// Returns the text of the model. `log` holds further lines of `train`, each with its line break.
inline std::string heavy_model(int steps, const std::string& log = "") {
  return R"(xgraph 1
model heavy {
  input x: f32[N, 256]
  feature = x -> linear(2048) -> relu -> linear(256)
  output feature
  head id = classifier(feature, 64)
}
data d {
  source train = synthetic([256], 64, 6400)
  x = pixels
}
train t {
  batch     = 1024
  norm_rows = 64
  steps     = )" +
         std::to_string(steps) + R"(
  loss      = softmax_ce(id, label)
  optimizer = sgd
  lr        = 0.01
)" + log +
         "}\n";
}

}  // namespace xrun::testing
