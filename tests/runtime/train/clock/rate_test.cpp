// Lengths of training converted to steps, and the clock of a run.
#include "runtime/train/clock/rate.h"

#include <gtest/gtest.h>

#include "runtime/train/clock/run_clock.h"

namespace xrun::runtime {
namespace {

TrainSpec spec(int64_t batch, TrainSpan duration) {
  TrainSpec train;
  train.batch = batch;
  train.duration = duration;
  return train;
}

TEST(Rate, EpochsAreConvertedToSteps) {
  EXPECT_EQ(RunClock(spec(4096, {20, TrainSpan::kEpochs}), 5179510).steps(), 25291);
  EXPECT_EQ(RunClock(spec(10, {3, TrainSpan::kEpochs}), 1000).steps(), 300) << "a whole number is not rounded up";
  EXPECT_EQ(RunClock(spec(10, {7, TrainSpan::kSteps}), 1000).steps(), 7);
}

TEST(Rate, ACurveWithoutALengthTakesTheRemainingSteps) {
  TrainSpec train = spec(10, {2, TrainSpan::kEpochs});
  CurveSpec warmup;
  warmup.kind = "warmup";
  warmup.to = 1;
  warmup.span = TrainSpan{50, TrainSpan::kSteps};
  CurveSpec cosine;
  cosine.kind = "cosine";
  cosine.from = 1;
  train.lr = {warmup, cosine};
  const Curve curve = make_curve(train, 1000);
  EXPECT_DOUBLE_EQ(curve.at(0), 0);
  EXPECT_DOUBLE_EQ(curve.at(25), 0.5);
  EXPECT_DOUBLE_EQ(curve.at(50), 1);
  EXPECT_NEAR(curve.at(125), 0.5, 1e-12) << "half of the 150 steps that are left";
  EXPECT_NEAR(curve.at(200), 0, 1e-12);
}

TEST(Rate, WorkIsDueAtTheFirstStepAfterEachMultipleOfItsInterval) {
  const auto due = [](TrainSpan every, int64_t samples, int64_t batch) {
    std::vector<int64_t> steps;
    const RunClock clock(spec(batch, {1, TrainSpan::kEpochs}), samples);
    for (int64_t done = 1; done <= 20; ++done) {
      if (clock.is_due(every, done)) {
        steps.push_back(done);
      }
    }
    return steps;
  };
  EXPECT_EQ(due({1, TrainSpan::kEpochs}, 65, 10), (std::vector<int64_t>{7, 13, 20}));
  EXPECT_EQ(due({5, TrainSpan::kSteps}, 65, 10), (std::vector<int64_t>{5, 10, 15, 20}));
  EXPECT_EQ(due({0, TrainSpan::kSteps}, 65, 10), std::vector<int64_t>{});
}

TEST(RunClock, CountsTheEpochsOfARun) {
  struct Run {
    int64_t samples, batch, steps, epochs;
  };
  for (const Run& run : {Run{1437, 64, 2246, 100}, Run{1000, 600, 34, 20}, Run{100, 256, 8, 20},
                         Run{20000, 256, 157, 2}, Run{1000, 64, 100, 7}}) {
    const RunClock clock(spec(run.batch, {static_cast<double>(run.steps), TrainSpan::kSteps}), run.samples);
    EXPECT_EQ(clock.epochs(), run.epochs) << run.samples;
  }
}

}  // namespace
}  // namespace xrun::runtime
