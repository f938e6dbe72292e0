// Two sources fill the rows of batches by RowTasks. A training batch is filled before its step, into the next free slot
// of a ring: a task asks the sample order for the sample of the row, reads it, and tries replacements while the sample
// is broken. `wait` reports broken samples on the caller's thread, and writes the loss factors of the rows, which need
// the labels of the whole batch. Rows of an evaluation are filled one batch at a time, in the order of Reader::listing;
// broken ones become zeros.
#include "runtime/data/loader.h"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <set>
#include <tbb/enumerable_thread_specific.h>
#include <utility>
#include <vector>

#include "graph/base/check.h"
#include "graph/base/errors.h"
#include "runtime/data/order/bad_samples.h"
#include "runtime/data/step_faults.h"

namespace xrun::runtime {
namespace {

// A source counts as unreadable after this number of broken samples in one row: the first draw and its replacements.
constexpr int kMostAttempts = 64;

class Loader final : public BatchSource {
 public:
  Loader(std::unique_ptr<SampleRows> rows, LoaderOptions options)
      : rows_(std::move(rows)),
        options_(std::move(options)),
        order_(options_.order, rows_->samples(), options_.seed, std::exchange(options_.classes, {})),
        bad_(options_.wanted > 0 ? options_.wanted : rows_->samples(), options_.max_bad, options_.on_bad),
        steps_{.rows = options_.batch},
        tasks_(
            rows_->name(), options_.workers, [this](int64_t step, int64_t row) { return fill_row(step, row); },
            options_.clock, options_.patience) {}

  int64_t samples() const override { return rows_->samples(); }
  int64_t bad_samples() const override { return bad_.count(); }

  Status start(int64_t first_step, std::span<const BatchView> ring) override {
    ring_.assign(ring.begin(), ring.end());
    next_step_ = first_step;
    labels_.assign(ring.size(), RowLabels(rows_->partial_labels().size(), steps_.rows));
    tasks_.start(first_step, steps_.rows, static_cast<int>(ring.size()));
    for (size_t i = 0; i < ring.size(); ++i) {
      begin();
    }
    return {};
  }

  void resize(const StepRows& steps) override {
    steps_ = steps;
    faults_.forget_all();  // steps that were filled before the stop get other samples
  }

  bool ready(int64_t step) override { return tasks_.ready(step); }

  Status wait(int64_t step) override {
    XRUN_CHECK(next_step_ - slots() <= step && step < next_step_, "a step that was not begun is waited for");
    Status done = tasks_.wait(step);
    if (done.ok()) {
      done = mix_again(step);
    }
    bad_.tell();
    if (done.ok()) {
      finish_labels(step);
    }
    if (done.ok() && options_.on_warning && !looked_) {
      looked_ = true;
      std::ranges::for_each(rows_->look_at(ring_[static_cast<size_t>(step) % ring_.size()], steps_.rows),
                            options_.on_warning);
    }
    return done;
  }

  void release(int64_t step) override {
    XRUN_CHECK(step == next_step_ - slots(), "steps are released in order");
    faults_.forget(step);
    begin();
  }

  std::vector<BrokenRow> take_broken(int64_t step) override { return faults_.take_untold(step); }

  Status replace(int64_t step, std::span<const BrokenRow> broken) override {
    std::set<int64_t> rows;
    faults_.add(step, broken);
    for (const BrokenRow& one : broken) {
      rows.insert(one.row);
    }
    for (const int64_t row : rows) {
      XRUN_TRY(fill_row(step, row, true));
    }
    XRUN_TRY(mix_again(step));
    bad_.tell();
    if (!rows.empty()) {
      finish_labels(step);
    }
    return {};
  }

  std::span<const int32_t> labelled(std::string_view input) const override { return counts_.of(input); }

  void stop() override {
    tasks_.stop();
    bad_.tell();
  }

 private:
  int64_t slots() const { return static_cast<int64_t>(ring_.size()); }

  void begin() {
    tasks_.begin();
    ++next_step_;
  }

  // Writes the loss factors of a batch's rows, once the labels of the batch are known.
  void finish_labels(int64_t step) {
    const RowLabels& labels = labels_[static_cast<size_t>(step) % ring_.size()];
    counts_.take(rows_->partial_labels(), labels);
    labels.write_factors(rows_->partial_labels(), options_.sums_loss, ring_[static_cast<size_t>(step) % ring_.size()]);
    if (const std::string* lacking = counts_.lacking(); lacking != nullptr && options_.on_warning && !told_lacking_) {
      told_lacking_ = true;
      options_.on_warning(
          content_error("XG0848",
                        {"no sample of the batch of step {} has a `{}`, so the step learns nothing about it; "
                         "later batches of this kind are not reported",
                         step + 1, *lacking},
                        ""));
    }
  }

  // Fills rows with broken samples, and the rows that have them as partners, until no more are found. A sample may be
  // broken in an input that only one of these rows reads, and both must have the same replacement.
  Status mix_again(int64_t step) {
    std::set<int64_t> rows;
    while (rows_->mixes() && !(rows = faults_.rows_to_mix(step, steps_.rows)).empty()) {
      for (const int64_t row : rows) {
        XRUN_TRY(fill_row(step, row, true));
      }
    }
    return {};
  }

  // `again`: the row is filled a second time because some of its samples are known to be broken.
  Status fill_row(int64_t step, int64_t row, bool again = false) {
    const BatchView& view = ring_[static_cast<size_t>(step) % ring_.size()];
    RowLabels& labels = labels_[static_cast<size_t>(step) % ring_.size()];
    AugmentScratch& scratch = scratch_.local();
    DrawnSample own;
    XRUN_TRY(try_samples(step, row, again, [&](const DrawnSample& sample) {
      own = sample;
      return rows_->fill(sample.number, sample.key, scratch, view, row, labels.row(row));
    }));
    if (!rows_->mixes()) {
      return {};
    }
    return try_samples(step, partner_row(row, steps_.rows), again, [&](const DrawnSample& partner) -> Status {
      XRUN_TRY(rows_->mix(own, partner, scratch, view, row));
      return {};
    });
  }

  // Calls `read` with the sample of a row, and with one replacement after the other while the sample is broken.
  template <class Read>
  Status try_samples(int64_t step, int64_t row, bool again, Read read) {
    const SamplePlace place = order_.at(steps_.begin + (step - steps_.first) * steps_.rows + row);
    int64_t sample = place.sample;
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      std::optional<std::string> fault = again ? faults_.known(step, row, attempt) : std::nullopt;
      if (!fault) {
        const DrawKey key{options_.seed, static_cast<uint64_t>(place.pass), static_cast<uint64_t>(sample), true};
        Status done = read(DrawnSample{sample, key});
        if (done.ok() || !is_broken_sample(done.error())) {
          return done;
        }
        fault = done.error().message;
        faults_.note(step, {row, rows_->reader().sample_name(sample), *fault, attempt});
      }
      XRUN_TRY(bad_.add(sample, *fault));
      sample = order_.substitute(place, static_cast<uint64_t>(attempt));
    }
    return Error{.kind = ErrorKind::kContent,
                 .code = "XG0408",
                 .message = fmt::format("{} samples of source `{}` in a row are broken", kMostAttempts, rows_->name()),
                 .help = "fix or remove the files"};
  }

  std::unique_ptr<SampleRows> rows_;
  LoaderOptions options_;
  SampleSequence order_;
  BadSamples bad_;
  tbb::enumerable_thread_specific<AugmentScratch> scratch_;
  std::vector<BatchView> ring_;
  std::vector<RowLabels> labels_;  // index: position in the ring
  LabelCounts counts_;             // label counts of the batch that was waited for last
  bool told_lacking_ = false;      // whether a batch without labels was reported
  StepRows steps_;
  int64_t next_step_ = 0;  // the first step that has not begun
  bool looked_ = false;    // whether the first batch was checked for warnings
  StepFaults faults_;      // faults of steps that have begun and are not yet released
  RowTasks tasks_;         // last member, since its tasks use the members above
};

class Rows final : public RowSource {
 public:
  Rows(std::unique_ptr<SampleRows> rows, LoaderOptions options)
      : rows_(std::move(rows)),
        options_(std::move(options)),
        listing_(rows_->reader().listing()),
        bad_(options_.wanted > 0 ? options_.wanted : rows_->samples(), options_.max_bad, options_.on_bad),
        tasks_(
            rows_->name(), options_.workers, [this](int64_t, int64_t row) { return fill_row(row); }, options_.clock,
            options_.patience) {}

  std::string_view name() const override { return rows_->name(); }
  int64_t samples() const override { return rows_->samples(); }
  std::string sample_name(int64_t sample) const override { return rows_->reader().sample_name(number_of(sample)); }
  Result<std::optional<int64_t>> label(const std::string& input, int64_t sample) override {
    return rows_->label(input, number_of(sample), label_scratch_);
  }
  const TemplatePairs* templates() const override { return rows_->reader().templates(); }

  void begin(int64_t first, int64_t rows, const BatchView& batch) override {
    XRUN_CHECK(first >= 0 && rows >= 0 && first + rows <= samples(), "rows outside the source");
    first_ = first;
    batch_ = batch;
    found_.clear();
    labels_ = RowLabels(rows_->partial_labels().size(), rows);
    tasks_.start(0, rows, 1);
    tasks_.begin();
  }
  Status finish() override {
    Status done = tasks_.wait(0);
    cancel();
    broken_ = std::exchange(found_, {});
    std::ranges::sort(broken_, {}, &BrokenRow::row);
    counts_.take(rows_->partial_labels(), labels_);
    return done;
  }
  std::span<const int32_t> labelled(std::string_view input) const override { return counts_.of(input); }
  std::span<const BrokenRow> broken_rows() const override { return broken_; }
  Status add_broken(std::span<const BrokenRow> others) override {
    for (const BrokenRow& one : others) {
      if (std::ranges::find(broken_, one.row, &BrokenRow::row) == broken_.end()) {
        broken_.push_back(one);
        rows_->zero(batch_, one.row);
        XRUN_TRY(bad_.add(number_of(first_ + one.row), one.message));
      }
    }
    std::ranges::sort(broken_, {}, &BrokenRow::row);
    bad_.tell();
    return {};
  }
  void cancel() override {
    tasks_.stop();
    bad_.tell();
  }

 private:
  int64_t number_of(int64_t sample) const { return listing_.empty() ? sample : listing_[static_cast<size_t>(sample)]; }

  Status fill_row(int64_t row) {
    const int64_t sample = number_of(first_ + row);
    const DrawKey key{options_.seed, 0, static_cast<uint64_t>(sample), false};
    Status done = rows_->fill(sample, key, scratch_.local(), batch_, row, labels_.row(row));
    if (!done.ok() && is_broken_sample(done.error())) {
      rows_->zero(batch_, row);
      {
        const std::scoped_lock lock(mutex_);
        found_.push_back({row, rows_->reader().sample_name(sample), done.error().message});
      }
      done = bad_.add(sample, done.error().message);
    }
    return done;
  }

  std::unique_ptr<SampleRows> rows_;
  LoaderOptions options_;
  std::vector<int64_t> listing_;
  BadSamples bad_;
  tbb::enumerable_thread_specific<AugmentScratch> scratch_;
  AugmentScratch label_scratch_;
  int64_t first_ = 0;  // number of the sample in row 0 of the batch
  BatchView batch_;
  RowLabels labels_{0, 0};        // labels of the batch in progress
  LabelCounts counts_;            // labels of the batch that is being filled
  std::mutex mutex_;              // label counts of the batch that `finish` returned last
  std::vector<BrokenRow> found_;  // guards found_ while rows are filled
  std::vector<BrokenRow> broken_;
  RowTasks tasks_;  // last, since tasks use the members above
};

}  // namespace

Result<std::unique_ptr<BatchSource>> make_loader(std::unique_ptr<SampleRows> rows, LoaderOptions options) {
  XRUN_CHECK(options.batch > 0, "a batch without rows");
  return std::unique_ptr<BatchSource>(std::make_unique<Loader>(std::move(rows), std::move(options)));
}

Result<std::unique_ptr<RowSource>> make_row_source(std::unique_ptr<SampleRows> rows, LoaderOptions options) {
  return std::unique_ptr<RowSource>(std::make_unique<Rows>(std::move(rows), std::move(options)));
}

}  // namespace xrun::runtime
