// Gradients with fewer elements than there are replicas, so that some replicas own no element of them, in separate
// buckets and in one bucket.
#include "tests/support/command_runs.h"

namespace xrun::testing {
namespace {

using Buckets = CommandRuns;

TEST_F(Buckets, GradientsOfOneElementHaveTheSameBits) {
  write_model(R"(xgraph 1

model small {
  input x: f32[N, 12]

  param t: [1] = constant(0.5)

  feature = x * exp(t) -> linear(2, bias=false) -> bn -> silu -> linear(1) -> linear(8)
  output feature

  head id = classifier(feature, 37)
}

data made {
  source train = synthetic([12], 37, 480)

  x = pixels
}

train quick {
  batch     = 48
  epochs    = 2
  norm_rows = 4
  loss      = softmax_ce(id, label)
  optimizer = adamw
  clip      = norm(1)
  lr        = 3e-3
}
)");
  const std::string plain = weights("one", {"--devices", "1"});
  for (const std::string bucket : {"1B", "40B", "25MiB"}) {
    for (const std::string replicas : {"2", "4"}) {
      const Flags flags = with({"--devices", replicas, "--threads", replicas, "--set", "schedule.stages=1"},
                               {"--set", "schedule.replicas=" + replicas, "--set", "schedule.bucket=" + bucket});
      EXPECT_EQ(weights(bucket + replicas, flags), plain) << bucket << ", " << replicas << " replicas";
    }
  }
}

}  // namespace
}  // namespace xrun::testing
