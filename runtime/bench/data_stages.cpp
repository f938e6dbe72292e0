// Tests: tests/runtime/cli/commands/bench_data_test.cpp
#include "runtime/bench/data_stages.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <tbb/global_control.h>

#include "graph/os/processor_time.h"
#include "runtime/data/loader.h"
#include "runtime/data/order/sample_order.h"

namespace xrun::runtime {
namespace {

Seconds wall_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Memory for batches of the inputs that data fills.
struct Slot {
  std::vector<std::vector<std::byte>> memory;
  BatchView view;

  Slot(const Graph& graph, int64_t rows) : memory(graph.inputs.size()) {
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      memory[i].resize(static_cast<size_t>(graph.value(graph.inputs[i].value).type.bytes(rows, rows)));
      view.inputs.push_back(memory[i].data());
    }
  }
  Slot(const Slot&) = delete;  // the view would keep the addresses of the original
  Slot(Slot&&) = default;
};

// Divides the time of a thread among the parts of its work.
class PartTimes {
 public:
  void begin() {
    spent_.assign(spent_.size(), 0);
    last_ = wall_now();
  }
  void end_part(std::string_view name) {
    const Seconds now = wall_now();
    const auto known = std::ranges::find(names_, name);
    if (known == names_.end()) {
      names_.emplace_back(name);
      spent_.push_back(now - last_);
    } else {
      spent_[static_cast<size_t>(known - names_.begin())] += now - last_;
    }
    last_ = now;
  }
  const std::vector<std::string>& names() const { return names_; }
  // The share of each part in the time since `begin`.
  std::vector<double> shares() const {
    Seconds all = 0;
    for (const Seconds part : spent_) {
      all += part;
    }
    std::vector<double> shares;
    std::ranges::transform(spent_, std::back_inserter(shares), [&](Seconds part) { return part / all; });
    return shares;
  }

 private:
  std::vector<std::string> names_;
  std::vector<Seconds> spent_;
  Seconds last_ = 0;
};

// The rounds on one core.
class OneCore {
 public:
  OneCore(const SampleRows& rows, const Graph& graph, const DataCase& one)
      : rows_(rows), one_(one), order_(SampleOrder::kShuffled, rows.samples(), one.seed), slot_(graph, 1) {
    scratch_.on_part = [this](std::string_view name) { times_.end_part(name); };
  }

  Status round(DataFigures& figures, bool counts) {
    int64_t good = 0;
    times_.begin();
    const Seconds begin = thread_processor_time();
    for (int64_t i = 0; i < one_.samples; ++i) {
      const SamplePlace place = order_.at(position_++);
      const DrawKey key{one_.seed, static_cast<uint64_t>(place.pass), static_cast<uint64_t>(place.sample), true};
      Status filled = fill({place.sample, key});
      if (!filled.ok() && !is_broken_sample(filled.error())) {
        return filled;
      }
      good += filled.ok() ? 1 : 0;
    }
    const Seconds spent = thread_processor_time() - begin;
    if (counts && good > 0) {
      const auto samples = static_cast<double>(good);
      figures.seconds.push_back(spent / samples);
      figures.broken += one_.samples - good;
      const std::vector<double> shares = times_.shares();
      for (size_t i = 0; i < shares.size(); ++i) {
        if (i == figures.parts.size()) {
          figures.parts.push_back({.name = times_.names()[i], .seconds = {}});
        }
        figures.parts[i].seconds.push_back(shares[i] * spent / samples);
      }
    }
    return {};
  }

 private:
  // Fills the row of a sample. A stage that mixes samples takes the one before it as the partner.
  Status fill(const DrawnSample& sample) {
    XRUN_TRY(rows_.fill(sample.number, sample.key, scratch_, slot_.view, 0));
    if (rows_.mixes()) {
      XRUN_TRY(rows_.mix(sample, last_.value_or(sample), scratch_, slot_.view, 0));
      scratch_.end_part("mix");
    }
    last_ = sample;
    return {};
  }

  const SampleRows& rows_;
  const DataCase& one_;
  SampleSequence order_;
  Slot slot_;
  AugmentScratch scratch_;
  PartTimes times_;
  int64_t position_ = 0;
  std::optional<DrawnSample> last_;  // the sample of the row before
};

// Takes steps from a loader, as a run whose devices need no time.
class Steps {
 public:
  Steps(BatchSource& loader, const Graph& graph, int64_t batch) : loader_(loader) {
    for (int i = 0; i < 2; ++i) {
      slots_.emplace_back(graph, batch);
    }
  }

  Status start() {
    const std::vector<BatchView> ring{slots_[0].view, slots_[1].view};
    return loader_.start(0, ring);
  }
  Status take(int64_t steps) {
    for (int64_t end = next_ + steps; next_ < end; ++next_) {
      XRUN_TRY(loader_.wait(next_));
      loader_.release(next_);
    }
    return {};
  }

 private:
  BatchSource& loader_;
  std::vector<Slot> slots_;
  int64_t next_ = 0;
};

}  // namespace

Result<DataFigures> measure_data(std::unique_ptr<SampleRows> rows, const Graph& graph, const DataCase& one) {
  DataFigures figures;
  OneCore core(*rows, graph, one);
  for (int i = 0; i <= one.rounds; ++i) {
    XRUN_TRY(core.round(figures, i > 0));
  }
  // The thread that waits for batches is one of the threads that TBB counts, but it fills no rows.
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(one.threads) + 1);
  XRUN_ASSIGN(auto loader, make_loader(std::move(rows),
                                       {.batch = one.batch, .seed = one.seed, .max_bad = 1, .workers = one.threads}));
  Steps steps(*loader, graph, one.batch);
  const int64_t count = std::max<int64_t>(1, one.samples / one.batch);
  Status done = steps.start();
  for (int i = 0; i <= one.rounds && done.ok(); ++i) {
    const Seconds begin = wall_now();
    done = steps.take(count);
    if (i > 0) {
      figures.loaded.push_back(static_cast<double>(count * one.batch) / (wall_now() - begin));
    }
  }
  loader->stop();
  XRUN_TRY(std::move(done));
  return figures;
}

}  // namespace xrun::runtime
