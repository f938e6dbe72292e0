#include "runtime/data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>
#include <new>
#include <numeric>
#include <set>
#include <tbb/global_control.h>
#include <thread>
#include <utility>

#include "graph/settings/reading_task.h"
#include "runtime/data/open_reader.h"
#include "tests/runtime/data/data_support.h"

namespace xrun::runtime {
namespace {

using namespace testing;

constexpr int64_t kSamples = 203;
constexpr int64_t kClasses = 7;

SourceSpec synthetic(int64_t samples = kSamples) {
  return source("train", "synthetic",
                {{"shape", std::vector<int64_t>{2, 6, 5}},
                 {"classes", kClasses},
                 {"samples", samples},
                 {"seed", int64_t{3}},
                 {"noise", 0.5}});
}

Graph two_inputs(int64_t classes = kClasses) {
  return inputs({{"image", picture_type(2, 6, 5)}, {"label", label_type(classes)}});
}

DataSpec data_of(SourceSpec spec) {
  return {.name = "d",
          .sources = {std::move(spec)},
          .bindings = {{.target = "image", .field = "pixels", .stages = {{"random_noise", {{"sigma", 0.1}}, {}}}}}};
}

std::unique_ptr<SampleRows> rows_of(const DataSpec& data, const Graph& graph) {
  auto rows = SampleRows::open(data, data.sources[0].name, graph);
  EXPECT_TRUE(rows.ok()) << rows.error().message;
  return std::move(rows).value();
}

// Returns the bytes of the batches of the steps [first, first + steps), loaded through a ring of `ring` slots.
std::vector<std::byte> bytes_of(const Graph& graph, int64_t first, int64_t steps, int ring, LoaderOptions options,
                                const DataSpec& data = data_of(synthetic())) {
  auto loader = make_loader(rows_of(data, graph), options).value();
  std::vector<Batch> slots;
  std::vector<BatchView> views;
  for (int i = 0; i < ring; ++i) {
    slots.emplace_back(graph, options.batch);
  }
  for (const Batch& slot : slots) {
    views.push_back(slot.view);
  }
  EXPECT_TRUE(loader->start(first, views).ok());
  std::vector<std::byte> out;
  for (int64_t step = first; step < first + steps; ++step) {
    const Status ready = loader->wait(step);
    EXPECT_TRUE(ready.ok()) << ready.error().message;
    for (const auto& memory : slots[static_cast<size_t>(step) % slots.size()].memory) {
      out.insert(out.end(), memory.begin(), memory.end());
    }
    loader->release(step);
  }
  loader->stop();
  return out;
}

TEST(Loader, EachSampleComesOncePerEpoch) {
  for (const SampleOrder order : {SampleOrder::kShuffled, SampleOrder::kSequential}) {
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < kSamples; ++i) {
        const SamplePlace place = SampleSequence(order, kSamples, 5).at(epoch * kSamples + i);
        EXPECT_EQ(place.epoch, epoch);
        EXPECT_EQ(place.position, i);
        seen.insert(place.sample);
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(kSamples));
      EXPECT_EQ(*seen.rbegin(), kSamples - 1);
    }
  }
  const SampleSequence shuffled(SampleOrder::kShuffled, kSamples, 5);
  EXPECT_NE(shuffled.at(0).sample + shuffled.at(1).sample * 1000,
            shuffled.at(kSamples).sample + shuffled.at(kSamples + 1).sample * 1000);
}

TEST(Loader, BatchesAreTheRowsOfTheirPositions) {
  const Graph graph = two_inputs();
  const DataSpec data = data_of(synthetic());
  const auto rows = rows_of(data, graph);
  const int64_t batch = 48;
  const auto bytes = bytes_of(graph, 0, 10, 2, {.batch = batch, .seed = 9});
  Batch want(graph, batch);
  AugmentScratch scratch;
  size_t at = 0;
  for (int64_t step = 0; step < 10; ++step) {
    for (int64_t row = 0; row < batch; ++row) {
      const SamplePlace place = SampleSequence(SampleOrder::kShuffled, kSamples, 9).at(step * batch + row);
      ASSERT_TRUE(rows->fill(place.sample,
                             {9, static_cast<uint64_t>(place.epoch), static_cast<uint64_t>(place.sample), true},
                             scratch, want.view, row)
                      .ok());
      EXPECT_EQ(want.integers(1)[row], place.sample % kClasses);
    }
    for (const auto& memory : want.memory) {
      ASSERT_EQ(std::memcmp(bytes.data() + at, memory.data(), memory.size()), 0) << "step " << step;
      at += memory.size();
    }
  }
}

// Two steps of 48 rows are followed by steps of 32 rows from the same position. Three of these steps have the rows of
// two larger ones.
TEST(Loader, StepsOfAnotherSizeContinueTheSequence) {
  const Graph graph = two_inputs();
  const LoaderOptions options{.batch = 48, .seed = 9};
  auto loader = make_loader(rows_of(data_of(synthetic()), graph), options).value();
  Batch large(graph, 48);
  ASSERT_TRUE(loader->start(0, {&large.view, 1}).ok());
  ASSERT_TRUE(loader->wait(0).ok());
  loader->release(0);
  ASSERT_TRUE(loader->wait(1).ok());
  loader->stop();
  loader->resize({.first = 2, .rows = 32, .begin = 96});
  Batch small(graph, 32);
  ASSERT_TRUE(loader->start(2, {&small.view, 1}).ok());
  std::vector<int32_t> labels;
  for (int64_t step = 2; step < 5; ++step) {
    ASSERT_TRUE(loader->wait(step).ok());
    labels.insert(labels.end(), small.integers(1), small.integers(1) + 32);
    loader->release(step);
  }
  loader->stop();
  const SampleSequence sequence(SampleOrder::kShuffled, kSamples, 9);
  for (int64_t i = 0; i < 96; ++i) {
    EXPECT_EQ(labels[static_cast<size_t>(i)], sequence.at(96 + i).sample % kClasses) << i;
  }
}

TEST(Loader, TheBytesDoNotDependOnThreadsRingSizeOrFirstStep) {
  const Graph graph = two_inputs();
  std::vector<std::byte> reference;
  {
    const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 2);
    reference = bytes_of(graph, 0, 8, 1, {.batch = 100, .seed = 4, .workers = 1});
  }
  const tbb::global_control many(tbb::global_control::max_allowed_parallelism, 9);
  for (const int ring : {1, 2, 3, 5}) {
    EXPECT_EQ(bytes_of(graph, 0, 8, ring, {.batch = 100, .seed = 4, .workers = 8}), reference) << "ring of " << ring;
  }
  const auto later = bytes_of(graph, 3, 5, 2, {.batch = 100, .seed = 4, .workers = 4});
  EXPECT_TRUE(
      std::equal(later.begin(), later.end(), reference.begin() + static_cast<ptrdiff_t>(reference.size() / 8 * 3)));
  EXPECT_NE(bytes_of(graph, 0, 8, 2, {.batch = 100, .seed = 5, .workers = 2}), reference);
}

TEST(Loader, StopsInTheMiddleAndStartsAgain) {
  const Graph graph = two_inputs();
  const LoaderOptions options{.batch = 100, .seed = 4, .workers = 3};
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 4);
  auto loader = make_loader(rows_of(data_of(synthetic()), graph), options).value();
  Batch a(graph, 100), b(graph, 100);
  const std::vector<BatchView> ring{a.view, b.view};
  const auto reference = bytes_of(graph, 0, 3, 1, options);
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(loader->start(2, ring).ok());
    if (round % 2 == 0) {
      ASSERT_TRUE(loader->wait(2).ok());
      ASSERT_EQ(std::memcmp(a.memory[0].data(), reference.data() + reference.size() / 3 * 2, a.memory[0].size()), 0);
    }
    loader->stop();
  }
}

// A reader in which some samples are broken.
class FaultyReader final : public Reader {
 public:
  explicit FaultyReader(std::set<int64_t> broken) : broken_(std::move(broken)) {}
  int64_t samples() const override { return 100; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return 100; }
  Status read(int64_t sample, int, FieldValue& out) const override {
    if (broken_.contains(sample)) {
      return Error{.code = "XG0412", .message = "torn"};
    }
    out.set_integer(DType::kI32, sample);
    return {};
  }
  std::string class_name(int64_t) const override { return ""; }
  std::string sample_name(int64_t sample) const override { return "sample " + std::to_string(sample); }
  std::string describe() const override { return "faulty"; }

 private:
  std::set<int64_t> broken_;
  std::vector<Field> fields_{{"label", label_type(100)}};
};

std::unique_ptr<SampleRows> faulty(std::set<int64_t> broken, const Graph& graph) {
  return SampleRows::make("train", std::make_unique<FaultyReader>(std::move(broken)), {.name = "d"}, graph).value();
}

TEST(Loader, BrokenSamplesAreReplacedCountedAndNamedOnce) {
  const Graph graph = inputs({{"label", label_type(100)}});
  const std::set<int64_t> broken{3, 50, 99};
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 5);
  std::vector<std::string> named;
  auto run = [&](int workers) {
    named.clear();
    const LoaderOptions options{
        .batch = 50, .seed = 1, .max_bad = 0.05, .workers = workers, .on_bad = [&](const std::string& m) {
          named.push_back(m);
        }};
    auto loader = make_loader(faulty(broken, graph), options).value();
    Batch slot(graph, 50);
    EXPECT_TRUE(loader->start(0, {&slot.view, 1}).ok());
    std::vector<int32_t> labels;
    for (int64_t step = 0; step < 6; ++step) {
      EXPECT_TRUE(loader->wait(step).ok());
      labels.insert(labels.end(), slot.integers(0), slot.integers(0) + 50);
      loader->release(step);
    }
    loader->stop();
    EXPECT_EQ(loader->bad_samples(), 3);
    return labels;
  };
  const auto labels = run(1);
  EXPECT_EQ(run(4), labels);
  ASSERT_EQ(named.size(), 3u);
  EXPECT_NE(named[0].find("of source `train`: torn"), std::string::npos) << named[0];
  for (int64_t p = 0; p < 300; ++p) {
    const int64_t sample = SampleSequence(SampleOrder::kShuffled, 100, 1).at(p).sample;
    const int32_t label = labels[static_cast<size_t>(p)];
    EXPECT_FALSE(broken.contains(label));
    if (!broken.contains(sample)) {
      EXPECT_EQ(label, sample) << "positions never shift";
    }
  }
}

TEST(Loader, ConcurrentWorkersReportTheSameNumberOfBrokenSamples) {
  const Graph graph = inputs({{"label", label_type(100)}});
  std::set<int64_t> broken;
  for (int64_t sample = 0; sample < 100; ++sample) {
    broken.insert(sample);
  }
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 5);
  for (int round = 0; round < 200; ++round) {
    auto loader = make_loader(faulty(broken, graph), {.batch = 50, .seed = 1, .max_bad = 0.02, .workers = 4}).value();
    Batch slot(graph, 50);
    ASSERT_TRUE(loader->start(0, {&slot.view, 1}).ok());
    const Status done = loader->wait(0);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().message.find("3 of 100 samples are broken"), 0U) << done.error().message;
    loader->stop();
  }
}

TEST(Loader, MissingMemoryIsASystemError) {
  class Greedy final : public Reader {
   public:
    int64_t samples() const override { return 100; }
    const std::vector<Field>& fields() const override { return fields_; }
    int64_t classes() const override { return 100; }
    Status read(int64_t, int, FieldValue&) const override { throw std::bad_alloc(); }
    std::string class_name(int64_t) const override { return ""; }
    std::string sample_name(int64_t) const override { return ""; }
    std::string describe() const override { return "greedy"; }

   private:
    std::vector<Field> fields_{{"label", label_type(100)}};
  };
  const Graph graph = inputs({{"label", label_type(100)}});
  auto rows = SampleRows::make("train", std::make_unique<Greedy>(), {.name = "d"}, graph).value();
  auto loader = make_loader(std::move(rows), {.batch = 50, .workers = 2}).value();
  Batch slot(graph, 50);
  ASSERT_TRUE(loader->start(0, {&slot.view, 1}).ok());
  const Status done = loader->wait(0);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(exit_code(done.error().kind), 4);
  EXPECT_NE(done.error().message.find("out of memory"), std::string::npos) << done.error().message;
  loader->stop();
}

// A reader whose samples take a given time on a clock of its own. There is only one worker, so if the clock is read
// twice without a sample in between, one task has ended and the next one has begun.
class SlowReader final : public Reader {
 public:
  struct Log {
    std::mutex mutex;
    Seconds now = 0;
    std::vector<int> rows_of_tasks;
    bool looked = true;
  };
  SlowReader(Log& log, Seconds slow) : log_(log), slow_(slow) {}
  int64_t samples() const override { return 50; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return 100; }
  Status read(int64_t sample, int, FieldValue& out) const override {
    const std::scoped_lock lock(log_.mutex);
    log_.now += slow_;
    log_.looked = false;
    ++log_.rows_of_tasks.back();
    out.set_integer(DType::kI32, sample);
    return {};
  }
  std::string class_name(int64_t) const override { return ""; }
  std::string sample_name(int64_t) const override { return ""; }
  std::string describe() const override { return "slow"; }

  static RowTasks::Clock clock(Log& log) {
    return [&log] {
      const std::scoped_lock lock(log.mutex);
      if (std::exchange(log.looked, true)) {
        log.rows_of_tasks.push_back(0);
      }
      return log.now;
    };
  }

 private:
  Log& log_;
  Seconds slow_;
  std::vector<Field> fields_{{"label", label_type(100)}};
};

TEST(Loader, ATaskEndsAfterItsTimeLimit) {
  const Graph graph = inputs({{"label", label_type(100)}});
  const std::vector<std::pair<Seconds, int>> most_rows{
      {50 * kReadingTask, 1}, {0.3 * kReadingTask, 4}, {0.01 * kReadingTask, 101}};
  for (const auto& [slow, most] : most_rows) {
    SlowReader::Log log;
    auto rows = SampleRows::make("train", std::make_unique<SlowReader>(log, slow), {.name = "d"}, graph).value();
    auto loader =
        make_loader(std::move(rows), {.batch = 50, .order = SampleOrder::kSequential, .clock = SlowReader::clock(log)});
    Batch slot(graph, 50);
    ASSERT_TRUE((*loader)->start(0, {&slot.view, 1}).ok());
    for (int64_t step = 0; step < 4; ++step) {
      ASSERT_TRUE((*loader)->wait(step).ok());
      EXPECT_TRUE((*loader)->ready(step));
      EXPECT_EQ(slot.integers(0)[49], 49);
      (*loader)->release(step);
    }
    (*loader)->stop();
    const std::vector<int>& tasks = log.rows_of_tasks;
    EXPECT_LE(*std::max_element(tasks.begin(), tasks.end()), most) << slow << " s a row";
    EXPECT_GE(std::accumulate(tasks.begin(), tasks.end(), 0), 200);
  }
}

TEST(Loader, ReportsTheFirstErrorAndKeepsEarlierRows) {
  const Graph graph = inputs({{"label", label_type(100)}});
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 5);
  for (int round = 0; round < 20; ++round) {
    auto loader = make_loader(faulty({45, 46, 47, 48, 49, 50}, graph),
                              {.batch = 20, .order = SampleOrder::kSequential, .max_bad = 0, .workers = 4})
                      .value();
    Batch a(graph, 20), b(graph, 20), c(graph, 20);
    const std::vector<BatchView> ring{a.view, b.view, c.view};
    ASSERT_TRUE(loader->start(0, ring).ok());
    EXPECT_TRUE(loader->wait(0).ok());
    EXPECT_TRUE(loader->wait(1).ok());
    EXPECT_EQ(b.integers(0)[19], 39);
    const Status done = loader->wait(2);
    ASSERT_FALSE(done.ok());
    EXPECT_NE(done.error().message.find("; the last: sample 45 of source `train`: torn"), std::string::npos)
        << done.error().message;
    loader->stop();
  }
}

TEST(Loader, MoreBrokenSamplesThanMaxBadEndTheRun) {
  const Graph graph = inputs({{"label", label_type(100)}});
  for (const bool all : {false, true}) {
    std::set<int64_t> broken{3, 50, 99};
    for (int64_t i = 0; all && i < 100; ++i) {
      broken.insert(i);
    }
    auto loader = make_loader(faulty(broken, graph), {.batch = 100, .max_bad = all ? 1.0 : 0.02}).value();
    Batch slot(graph, 100);
    ASSERT_TRUE(loader->start(0, {&slot.view, 1}).ok());
    const Status done = loader->wait(0);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, "XG0408");
    EXPECT_EQ(exit_code(done.error().kind), 1);
    loader->stop();
  }
}

TEST(Loader, ALabelBeyondTheHeadIsFoundWhenTheSourceIsOpened) {
  const Graph graph = inputs({{"x", {.dtype = DType::kF32, .dims = {kBatch, 1}}}, {"label", label_type(5)}});
  const DataSpec data{
      .name = "d",
      .sources = {source("train", "synthetic",
                         {{"shape", std::vector<int64_t>{1}},
                          {"classes", int64_t{9}},
                          {"samples", int64_t{9}},
                          {"seed", int64_t{1}},
                          {"noise", 0.0}})},
      .bindings = {{.target = "x", .field = "pixels"},
                   {.target = "label", .field = "label", .stages = {{"as_index", {{"classes", int64_t{5}}}, {}}}}}};
  const auto rows = SampleRows::open(data, "train", graph);
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.error().code, "XG0402");
  EXPECT_EQ(rows.error().message, "label 8 does not fit a head with 5 classes");
}

// A reader whose reads end only when the test lets them, like reads from a server that is gone.
class HungReader final : public Reader {
 public:
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
  };
  explicit HungReader(Gate& gate) : gate_(gate) {}
  int64_t samples() const override { return 100; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return 100; }
  Status read(int64_t, int, FieldValue& out) const override {
    std::unique_lock lock(gate_.mutex);
    gate_.opened.wait(lock, [&] { return gate_.open; });
    out.set_integer(DType::kI32, 1);
    return {};
  }
  std::string class_name(int64_t) const override { return ""; }
  std::string sample_name(int64_t) const override { return ""; }
  std::string describe() const override { return "hung"; }

 private:
  Gate& gate_;
  std::vector<Field> fields_{{"label", label_type(100)}};
};

TEST(Loader, AStoppedRunDoesNotWaitForAReadThatHangs) {
  const Graph graph = inputs({{"label", label_type(100)}});
  HungReader::Gate gate;
  std::atomic<bool> stop{false};
  std::string stuck;
  const auto let_go = [&] {
    const std::scoped_lock lock(gate.mutex);
    gate.open = true;
    gate.opened.notify_all();
  };
  auto rows = SampleRows::make("train", std::make_unique<HungReader>(gate), {.name = "d"}, graph).value();
  auto loader = make_loader(std::move(rows), {.batch = 4,
                                              .workers = 2,
                                              .patience = {.stop = &stop,
                                                           .seconds = 0.2,
                                                           .on_stuck =
                                                               [&](const std::string& name) {
                                                                 stuck = name;
                                                                 let_go();
                                                               }}})
                    .value();
  Batch slot(graph, 4);
  ASSERT_TRUE(loader->start(0, {&slot.view, 1}).ok());
  std::thread signal([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop = true;
  });
  const Status waited = loader->wait(0);
  signal.join();
  ASSERT_FALSE(waited.ok());
  EXPECT_EQ(exit_code(waited.error().kind), 75);
  EXPECT_NE(waited.error().message.find("a read of `train` did not end"), std::string::npos) << waited.error().message;
  EXPECT_EQ(stuck, "");
  loader->stop();
  EXPECT_EQ(stuck, "train");
}

TEST(Rows, ComeInOrderWithoutRandomStages) {
  const Graph graph = two_inputs();
  auto rows = make_row_source(rows_of(data_of(synthetic()), graph), {.seed = 3}).value();
  EXPECT_EQ(rows->name(), "train");
  EXPECT_EQ(rows->samples(), kSamples);
  Batch one(graph, 64), two(graph, 64);
  ASSERT_TRUE(rows->read(70, 64, one.view).ok());
  ASSERT_TRUE(rows->read(70, 64, two.view).ok());
  EXPECT_EQ(one.memory, two.memory);
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(one.integers(1)[i], (70 + i) % kClasses);
  }
  FieldValue value;
  const auto reader = open_reader(synthetic()).value();
  ASSERT_TRUE(reader->read(70, 0, value).ok());
  const auto* pixels = reinterpret_cast<const float*>(value.bytes.data());
  EXPECT_EQ(one.floats(0)[1], pixels[30]) << "channels last: second value is channel 1 of the first pixel";
}

TEST(Rows, ABrokenSampleBecomesAReportedRowOfZeros) {
  const Graph graph = inputs({{"label", label_type(100)}});
  auto rows = make_row_source(faulty({4}, graph), {.max_bad = 0.01}).value();
  Batch batch(graph, 8);
  ASSERT_TRUE(rows->read(2, 6, batch.view).ok());
  EXPECT_EQ(std::vector<int32_t>(batch.integers(0), batch.integers(0) + 6), (std::vector<int32_t>{2, 3, 0, 5, 6, 7}));
  ASSERT_EQ(rows->broken_rows().size(), 1u);
  EXPECT_EQ(rows->broken_rows()[0].row, 2);
  EXPECT_EQ(rows->broken_rows()[0].sample, "sample 4");
  EXPECT_EQ(rows->broken_rows()[0].message, "sample 4 of source `train`: torn");
  rows->begin(10, 6, batch.view);
  EXPECT_EQ(rows->broken_rows().size(), 1u) << "those of the batch before, until this one is there";
  ASSERT_TRUE(rows->finish().ok());
  EXPECT_TRUE(rows->broken_rows().empty());
  auto strict = make_row_source(faulty({4}, graph), {.max_bad = 0}).value();
  EXPECT_EQ(strict->read(2, 6, batch.view).error().code, "XG0408");
  auto few = make_row_source(faulty({4}, graph), {.max_bad = 0.01, .wanted = 6}).value();
  EXPECT_EQ(few->read(2, 6, batch.view).error().message,
            "1 of 6 samples are broken, more than `max_bad` allows; the last: sample 4 of source `train`: torn");
}

TEST(Rows, AnInputWithoutABindingIsRejected) {
  const auto missing = SampleRows::open(data_of(synthetic()), "train", inputs({{"weight", label_type(3)}}));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, "XG0414");
  EXPECT_TRUE(SampleRows::open(data_of(synthetic()), "train", inputs({{"id.dx", label_type(3)}})).ok());
  EXPECT_EQ(SampleRows::open(data_of(synthetic()), "test", two_inputs()).error().code, "XG0413");
}

TEST(Synthetic, PrototypesHaveUnitVarianceAndNoiseIsAdded) {
  const auto reader = open_reader(source("s", "synthetic",
                                         {{"shape", std::vector<int64_t>{1, 64, 64}},
                                          {"classes", int64_t{3}},
                                          {"samples", int64_t{12}},
                                          {"seed", int64_t{1}},
                                          {"noise", 0.5}}))
                          .value();
  FieldValue a, b, c;
  ASSERT_TRUE(reader->read(0, 0, a).ok() && reader->read(3, 0, b).ok() && reader->read(1, 0, c).ok());
  const auto* x = reinterpret_cast<const float*>(a.bytes.data());
  const auto* y = reinterpret_cast<const float*>(b.bytes.data());
  const auto* z = reinterpret_cast<const float*>(c.bytes.data());
  double variance = 0, same = 0, other = 0;
  for (int i = 0; i < 4096; ++i) {
    variance += double{x[i]} * x[i] / 4096;
    same += double{x[i]} * y[i] / 4096;
    other += double{x[i]} * z[i] / 4096;
  }
  EXPECT_NEAR(variance, 1.25, 0.1);
  EXPECT_NEAR(same, 1, 0.1);
  EXPECT_NEAR(other, 0, 0.1);
  EXPECT_TRUE(reader->describe().starts_with("synthetic"));
}

TEST(LaterReaders, AreReportedAsUnavailable) {
  const auto later = open_reader(source("train", "parquet", {{"path", std::string("x.parquet")}}));
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().code, "XG0410");
}

}  // namespace
}  // namespace xrun::runtime
