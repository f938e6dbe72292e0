// Output of a run while it trains, measured with a clock of the test.
#include "runtime/cli/progress/progress.h"

#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "runtime/cli/progress/bar_progress.h"
#include "runtime/cli/progress/plain_progress.h"
#include "runtime/device/host.h"

namespace xrun::cli {
namespace {

using runtime::Work;
using ::testing::HasSubstr;
using ::testing::Not;

// A sink whose clock and output belong to the test.
template <typename Sink>
struct Shown {
  double time = 1'767'608'551;  // 2026-01-05T10:22:31Z
  std::string page;
  Sink sink{{.write = [this](std::string_view text) { page += text; }, .now = [this] { return time; }, .columns = 100}};

  // Moves the clock as a pulse does, and returns the text that was written meanwhile.
  std::string after(double seconds) {
    page.clear();
    for (const double end = time + seconds; time < end;) {
      time += 0.5;
      sink.beat();
    }
    return page;
  }
  void work(Work work, std::string_view subject = "", int64_t parts = 0, int64_t total = 0) {
    sink.on(runtime::WorkEvent{.work = work, .subject = subject, .done = parts, .total = total});
  }
  // Reports `count` steps of one second each, which are not due to be printed. Returns the text that was written.
  std::string steps(int count) {
    std::string all;
    for (int i = 0; i < count; ++i) {
      work(Work::kData, "", done, 1000);
      work(Work::kStep, "", done, 1000);
      after(1);
      sink.on(runtime::StepEvent{{.step = ++done, .line = {.loss = 2.5, .samples_per_second = 64}}, false});
      all += page;
    }
    return all;
  }
  int64_t done = 0;
};
using Plain = Shown<PlainProgress>;
using Bar = Shown<BarProgress>;

int64_t lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(PlainProgress, PrintsALineAfterThirtySecondsWithoutOutput) {
  Plain shown;
  EXPECT_EQ(shown.steps(29), "");
  const std::string beat = shown.steps(2);
  EXPECT_EQ(lines(beat), 1) << beat;
  EXPECT_THAT(beat, HasSubstr("2026-01-05T10:23:01Z working on=step step=30 of=1000 seconds=1.0 loss=2.5"));
  EXPECT_EQ(shown.steps(28), "");
  EXPECT_EQ(lines(shown.steps(3)), 1);
  shown.sink.on(runtime::CheckpointEvent{.step = shown.done, .path = "ckpt"});
  EXPECT_EQ(shown.steps(29), "") << "a line was printed";
}

TEST(PlainProgress, APauseOverTenSecondsIsReportedWithItsCause) {
  Plain shown;
  shown.work(Work::kData, "", 11, 300);
  EXPECT_EQ(shown.after(9), "");
  EXPECT_THAT(shown.after(1), HasSubstr("waiting for=data step=12 of=300 seconds=10.0"));
  EXPECT_EQ(shown.after(29), "") << "not twice within 30 s";
  EXPECT_THAT(shown.after(1.5), HasSubstr("waiting for=data step=12 of=300 seconds=40.0"));
}

TEST(PlainProgress, ALongEvaluationReportsItsBatches) {
  Plain shown;
  std::string all;
  for (int batch = 0; batch <= 40; ++batch) {
    shown.work(Work::kEvaluate, "test", batch * 50, 2000);
    all += shown.after(1);
  }
  EXPECT_EQ(lines(all), 1) << all;
  EXPECT_THAT(all, HasSubstr("working on=evaluate source=test samples=1450 of=2000 seconds=30.0"));
  shown.page.clear();
  shown.work(Work::kNone);
  EXPECT_THAT(shown.page, HasSubstr("finished evaluate source=test samples=2000 of=2000 seconds=41.0"));
}

TEST(PlainProgress, FailedAndShortWorkHasNoLine) {
  Plain shown;
  shown.work(Work::kOpen, "train");
  EXPECT_EQ(lines(shown.after(12)), 1);
  shown.work(Work::kNone);  // the error message follows
  EXPECT_EQ(lines(shown.page), 1) << shown.page;
  shown.work(Work::kEvaluate, "test", 0, 100);
  EXPECT_EQ(shown.after(5), "");
  shown.work(Work::kEvaluate, "test", 100, 100);
  shown.work(Work::kNone);
  EXPECT_EQ(shown.page, "");
  EXPECT_EQ(shown.after(100), "") << "nothing is under way";
}

TEST(PlainProgress, StepsReportMemoryInUseNextToThePlan) {
  Plain shown;
  shown.sink.on(
      runtime::StartEvent{.memory = 8 * kGiB, .memory_planned = 9 * kGiB, .memory_usable = 74 * kGiB + kGiB / 2});
  EXPECT_THAT(shown.page, HasSubstr(" mem_gib=8.00 mem_plan_gib=9.00 mem_of_gib=74.50\n"));
  shown.sink.on(runtime::StepEvent{{.step = 1, .memory = 8 * kGiB, .resident = 8 * kGiB + kGiB * 6 / 10}, true});
  EXPECT_THAT(shown.page, HasSubstr(" mem_gib=8.60 mem_of_gib=74.50\n"));
}

TEST(BarProgress, NothingIsDrawnInTheFirstHalfSecond) {
  Bar shown;
  shown.work(Work::kEvaluate, "test", 0, 2000);
  shown.time += 0.4;
  shown.work(Work::kEvaluate, "test", 500, 2000);
  EXPECT_EQ(shown.page, "");
  shown.time += 0.2;
  shown.work(Work::kEvaluate, "test", 1000, 2000);
  EXPECT_THAT(shown.page,
              HasSubstr("  test [############            ] 50 %   1 000 of 2 000 samples   1 667 samples/s"));
  shown.page.clear();
  shown.time += 0.05;
  shown.work(Work::kEvaluate, "test", 1500, 2000);
  EXPECT_EQ(shown.page, "") << "ten times a second at most";
  shown.time += 0.05;
  shown.work(Work::kEvaluate, "test", 2000, 2000);
  shown.work(Work::kNone);
  EXPECT_THAT(shown.page, ::testing::EndsWith("\033[1A\033[J  Measured  test, 2 000 samples   700.0 ms\n"));
}

TEST(BarProgress, WorkWithoutPartsCountsTheSeconds) {
  Bar shown;
  shown.work(Work::kOpen, "train");
  EXPECT_EQ(shown.after(0.5), "");
  EXPECT_THAT(shown.after(3), HasSubstr("  waiting 3 s for the data of train\n"));
  shown.work(Work::kPrepare, "kernels and memory");
  EXPECT_THAT(shown.page, HasSubstr("  Opened    train   3.5 s\n"));
}

TEST(BarProgress, APauseIsShownUnderTheBarUntilTheNextStep) {
  Bar shown;
  shown.sink.on(runtime::StartEvent{
      .model = "m", .steps = 1000, .steps_per_epoch = 100, .batch = 64, .memory_usable = 16 * kGiB});
  shown.steps(3);
  EXPECT_THAT(shown.page, HasSubstr("step 3 of 1 000"));
  shown.work(Work::kStep, "", 3, 1000);
  EXPECT_EQ(shown.after(9), "");
  const std::string pause = shown.after(3);
  EXPECT_THAT(pause, HasSubstr("step 3 of 1 000"));
  EXPECT_THAT(pause, HasSubstr("  waiting 12 s for step 4\n"));
  shown.page.clear();
  shown.sink.on(runtime::StepEvent{{.step = 4}, false});
  EXPECT_THAT(shown.page, ::testing::StartsWith("\033[4A\033[J"));
  EXPECT_THAT(shown.page, Not(HasSubstr("waiting 12 s")));
}

TEST(BarProgress, ShowsTheRecentRateAndNotThatOfOneStep) {
  BarState state{.start = {.steps = 10, .batch = 64}};
  state.step = {.step = 5, .line = {.samples_per_second = 1000}, .batch = 64, .predicted_step = 0.5};
  state.rate = 1.5;
  state.speed = 96;
  EXPECT_THAT(bar_text(state, 100, false), HasSubstr("   96 samples/s   75 % of plan"));
}

// A save or an evaluation of 20 seconds adds to the time of the run but does not lower its speed.
TEST(BarProgress, TheSpeedLeavesOutEvaluationsAndSaves) {
  Bar shown;
  shown.sink.on(runtime::StartEvent{.steps = 100, .samples = 6400, .batch = 64});
  for (int step = 1; step <= 3; ++step) {
    shown.after(step == 3 ? 21 : 1);
    shown.sink.on(
        runtime::StepEvent{{.step = step,
                            .line = {.samples_per_second = 64, .run_samples = 64 * step, .run_seconds = 1.0 * step},
                            .batch = 64},
                           true});
  }
  EXPECT_THAT(shown.page, HasSubstr("   64 samples/s"));
  EXPECT_THAT(shown.page, HasSubstr("   step 3 of 100   17 min 47 s left"));
}

TEST(PlainProgress, EvaluationsAndSavesHaveSeparateFieldsInALine) {
  const auto line = [](Seconds evaluation, Seconds saves) {
    return plain_line({.line = {.samples_per_second = 100, .evaluation = evaluation, .saves = saves}}, 0, 0);
  };
  EXPECT_THAT(line(0, 0), HasSubstr(" samples_per_s=100 data_ms="));
  EXPECT_THAT(line(1.5, 0), HasSubstr(" samples_per_s=100 eval_s=1.50 data_ms="));
  EXPECT_THAT(line(0, 0.25), HasSubstr(" samples_per_s=100 save_s=0.25 data_ms="));
  EXPECT_THAT(line(1.5, 0.25), HasSubstr(" eval_s=1.50 save_s=0.25 data_ms="));
}

TEST(PlainProgress, TheScaleOfTheLossIsAtTheEndOfALine) {
  EXPECT_EQ(plain_line({}, 0, 0).find("loss_scale"), std::string::npos);
  EXPECT_THAT(plain_line({.loss_scale = 32768, .skipped_steps = 3}, 0, 0),
              ::testing::EndsWith(" loss_scale=32768 skipped=3"));
}

TEST(Progress, NamesOfFilesNeitherSteerTheTerminalNorForgeLines) {
  Plain plain;
  plain.sink.on(runtime::WarnEvent{"XG0412", "x\x1B[31m\n2026 end.png: torn"});
  EXPECT_EQ(lines(plain.page), 1) << plain.page;
  EXPECT_EQ(plain.page.find('\x1B'), std::string::npos);
  Bar bar;
  bar.sink.on(runtime::WarnEvent{"XG0412", "x\x1B[31m\n2026 end.png: torn"});
  EXPECT_THAT(bar.page, HasSubstr("x\u241B[31m\u240A2026"));
}

TEST(BarProgress, ShowsTheAccuracyBeforeTheRates) {
  Shown<BarProgress> shown;
  shown.sink.on(
      runtime::StartEvent{.devices = 1, .steps = 1000, .samples = 64'000, .batch = 64, .predicted_step = 0.5});
  shown.after(1);
  shown.page.clear();
  shown.sink.on(
      runtime::StepEvent{{.step = 500,
                          .lr = 0.001234,
                          .grad_norm = 12.3,
                          .line = {.loss = 1.2345, .metrics = {{"accuracy", 0.9876}}, .samples_per_second = 2128}},
                         true});
  EXPECT_THAT(shown.page, HasSubstr("  loss 1.234   accuracy 98.76 %   lr 0.001234   2 128 samples/s   "));
}

TEST(BarProgress, ShowsMemoryInUseNextToThePlan) {
  BarState state{.start = {.steps = 10, .memory_usable = 74 * kGiB + kGiB / 2}};
  state.step = {.step = 5, .memory = kGiB, .resident = 8 * kGiB + kGiB * 6 / 10};
  EXPECT_THAT(bar_text(state, 100, false), HasSubstr("   memory 8.6 of 74.5 GiB   "));
  state.step.resident = 96 * kMiB;
  EXPECT_THAT(bar_text(state, 100, false), HasSubstr("   memory 96.0 MiB of 74.5 GiB   "));
}

TEST(Pulse, BeatsUntilItEnds) {
  std::atomic<int> beats{0};
  {
    const Pulse pulse([&] { ++beats; });
    for (int i = 0; i < 100 && beats < 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_GE(beats, 2);
  }
  const int last = beats;
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_EQ(beats, last);
}

TEST(Host, ResidentMemoryIncludesANewAllocation) {
  const Bytes before = runtime::resident();
  const std::vector<char> memory(64 * kMiB, 'x');
  const Bytes now = runtime::resident();
  EXPECT_GT(before, 0);
  EXPECT_GE(now, before + 60 * kMiB) << memory[memory.size() / 2];
  EXPECT_LE(now, runtime::peak_resident() + kMiB);
}

}  // namespace
}  // namespace xrun::cli
