// Tests: tests/runtime/train/evaluation/verified_sources_test.cpp, tests/runtime/train/evaluation/recall_test.cpp
#include "runtime/train/evaluation/source_measures.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <numeric>

#include "graph/base/check.h"
#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/layouts/partial_labels.h"
#include "graph/settings/pair_fields.h"
#include "ops/simd/convert.h"
#include "runtime/device/host.h"

namespace xrun::runtime {
namespace {

// The number of threads of this process; with several ranks, the number of one of its devices.
int threads_of(Session& session) {
  const std::vector<int>& threads = session.program().threads;
  return session.communicator() != nullptr ? threads[0] : std::accumulate(threads.begin(), threads.end(), 0);
}

bool is_broken(const Error& error) { return error.code == "XG0412"; }

// Checks that the features of templates and the distances of their pairs fit into the free memory.
Status check_memory(const TemplatePairs& templates, int64_t dim, std::string_view source) {
  const Bytes needed = template_memory(templates, dim);
  const Bytes free = detect_host().memory_free;
  if (needed <= free) {
    return {};
  }
  return Error{
      ErrorKind::kInfeasible, "XG0601",
      fmt::format("source `{}` cannot be verified in the free memory: the features of its {} and the distances "
                  "of its {} take {}, but {} are free",
                  source, counted(templates.templates, "template"), counted(std::ssize(templates.pairs), "pair"),
                  format_bytes(needed), format_bytes(free)),
      "divide the list of pairs into several sources"};
}

}  // namespace

SourceMeasures::SourceMeasures(Session& session, RowSource& source, const std::vector<Measure>& all)
    : session_(session), source_(source) {
  const Module& module = session.module();
  for (const Measure& measure : all) {
    if (measure.source == source.name()) {
      const int64_t width = module.graph.value(measure.value).type.row_elements();
      all_.push_back({.measure = measure,
                      .label = label_of(module.graph, module.data, measure.value),
                      .mean = {},
                      .recall = Recall(width - 2, measure.neighbours),
                      .distances = PairDistances(width),
                      .templates = std::nullopt,
                      .features = {}});
    }
  }
}

Status SourceMeasures::check() {
  for (One& one : all_) {
    if (one.measure.verification) {
      XRUN_TRY(session_.agree(check_verification(one)));
    }
    if (one.measure.neighbours > 0) {
      XRUN_TRY(session_.agree(check_recall(one)));
      one.recall.reserve(source_.samples());
    }
    if (one.measure.verification && source_.templates() != nullptr) {
      one.templates.emplace(*source_.templates(), width_of(one.measure.value));
    }
  }
  return {};
}

Status SourceMeasures::check_verification(const One& one) const {
  const TemplatePairs* const templates = source_.templates();
  bool has_same = false;
  if (templates == nullptr) {
    const auto same = source_.label(std::string(kPairField), 0);
    if (!same.ok() && !is_broken(same.error())) {
      return same.error();
    }
    has_same = !same.ok() || same->has_value();
  }
  XRUN_TRY(check_pairs(source_.name(), {source_.samples(), has_same, templates}, *one.measure.verification));
  return templates == nullptr ? Status() : check_memory(*templates, width_of(one.measure.value), source_.name());
}

// Checks that the features of all samples and their search fit into the free memory.
Status SourceMeasures::check_recall(const One& one) const {
  const int64_t samples = source_.samples();
  const int64_t dim = width_of(one.measure.value) - 2;
  const Bytes needed =
      recall_features(samples, dim) + recall_search(samples, dim, one.measure.neighbours, threads_of(session_));
  const Bytes free = detect_host().memory_free;
  if (needed <= free) {
    return {};
  }
  return Error{ErrorKind::kInfeasible, "XG0601",
               fmt::format("`recall_at` cannot be measured on source `{}` in the free memory: the features of its {} "
                           "and their search take {}, but {} are free",
                           source_.name(), counted(samples, "sample"), format_bytes(needed), format_bytes(free)),
               "measure it on a source with fewer samples"};
}

int64_t SourceMeasures::width_of(ValueId value) const {
  return session_.module().graph.value(value).type.row_elements();
}

// Returns the number of labels of each row: 0 for broken rows, else 1 if `label` is not a partial label.
std::vector<int32_t> SourceMeasures::labels_of(const std::string& label, int64_t count) const {
  const auto labels = source_.labelled(label);
  std::vector<int32_t> counted(static_cast<size_t>(count), 1);
  if (!labels.empty()) {
    std::copy_n(labels.begin(), count, counted.begin());
  }
  for (const BrokenRow& row : source_.broken_rows()) {
    counted[static_cast<size_t>(row.row)] = 0;
  }
  return counted;
}

Status SourceMeasures::read(ValueId value, std::vector<float>& to) const {
  const TensorType& type = session_.module().graph.value(value).type;
  to.resize(static_cast<size_t>(session_.program().batch * type.row_elements()));
  if (type.dtype == DType::kF32) {
    return session_.read_rows(value, std::as_writable_bytes(std::span(to)));
  }
  XRUN_CHECK(is_narrow(type.dtype), "results are numbers that operators compute");
  std::vector<uint16_t> narrow(to.size());
  XRUN_TRY(session_.read_rows(value, std::as_writable_bytes(std::span(narrow))));
  ops::convert(ops::Isa::kAvx2, type.dtype, narrow.data(), DType::kF32, to.data(), std::ssize(to));
  return {};
}

Status SourceMeasures::add(int64_t count) {
  for (One& one : all_) {
    if (one.measure.verification) {
      XRUN_TRY(read(one.measure.value, one.features));
      if (!one.measure.verification->flip) {
        add_pairs(one, nullptr, count);
      }
      continue;
    }
    const std::vector<int32_t> labels = labels_of(one.label, count);
    const int64_t width = width_of(one.measure.value);
    XRUN_TRY(read(one.measure.value, rows_));
    if (one.measure.neighbours == 0) {
      one.mean.add(std::span(rows_).first(labels.size()), labels);
      continue;
    }
    for (size_t row = 0; row < labels.size(); ++row) {
      if (labels[row] > 0) {
        one.recall.add(rows_.data() + static_cast<int64_t>(row) * width);
      }
    }
    one.mean.add(std::vector<float>(labels.size()), labels);  // weights each row by its number of labels
  }
  return {};
}

bool SourceMeasures::mirrors() const {
  return std::ranges::any_of(all_,
                             [](const One& one) { return one.measure.verification && one.measure.verification->flip; });
}

bool SourceMeasures::compares_samples() const {
  return std::ranges::any_of(all_,
                             [](const One& one) { return one.measure.verification || one.measure.neighbours > 0; });
}

Status SourceMeasures::add_mirrored(int64_t count) {
  for (One& one : all_) {
    if (one.measure.verification && one.measure.verification->flip) {
      XRUN_TRY(read(one.measure.value, rows_));
      add_pairs(one, &rows_, count);
    }
  }
  return {};
}

void SourceMeasures::add_pairs(One& one, const std::vector<float>* mirrored, int64_t count) const {
  const int64_t width = width_of(one.measure.value);
  const std::vector<int32_t> sound = labels_of({}, count);
  const auto add_to = [&](auto& features) {
    for (int64_t row = 0; row < count; ++row) {
      if (sound[static_cast<size_t>(row)] == 0) {
        features.add_broken();
      } else {
        features.add(one.features.data() + row * width, mirrored == nullptr ? nullptr : mirrored->data() + row * width);
      }
    }
  };
  if (one.templates) {
    add_to(*one.templates);
  } else {
    add_to(one.distances);
  }
}

// The pairs whose samples and `same` can be read.
Result<std::vector<ComparedPair>> SourceMeasures::compare_samples(const PairDistances& distances) const {
  const std::vector<double>& squared = distances.squared();
  std::vector<ComparedPair> pairs;
  for (size_t pair = 0; pair < squared.size(); ++pair) {
    if (squared[pair] == PairDistances::kLeftOut) {
      continue;
    }
    const auto same = source_.label(std::string(kPairField), static_cast<int64_t>(2 * pair));
    if (!same.ok() && is_broken(same.error())) {
      continue;
    }
    XRUN_TRY(same);
    pairs.push_back({squared[pair], same->value_or(0) != 0});
  }
  return pairs;
}

Result<VerifiedPairs> SourceMeasures::verify(One& one, StopFlag stop) const {
  XRUN_ASSIGN(const auto pairs, one.templates ? one.templates->compare(stop) : compare_samples(one.distances));
  const int64_t all = one.templates ? one.templates->pairs() : std::ssize(one.distances.squared());
  const int64_t folds = one.measure.verification->folds;
  if (std::ssize(pairs) < folds) {
    return content_error("XG0408",
                         {"only {} of source `{}` can be read, too few for {}",
                          counted_of(std::ssize(pairs), all, "pair"), source_.name(), counted(folds, "fold")},
                         "fix the file, or write a smaller `folds`");
  }
  VerifiedPairs scored = score_pairs(pairs, folds);
  scored.key = one.measure.key;
  scored.left_out = all - std::ssize(pairs);
  return scored;
}

Status SourceMeasures::count_labels(const One& one, MeasuredSource& counts) const {
  if (one.label.empty() || std::ranges::find(counts.labels, one.label, &LabelCount::input) != counts.labels.end()) {
    return {};
  }
  if (one.mean.count() == 0) {
    return content_error("XG0425", {"no sample of source `{}` has a `{}` to compare with", counts.name, one.label},
                         {"measure it on another source, or check `ignore` in the binding of `{}`", one.label});
  }
  const Graph& graph = session_.module().graph;
  const auto input = std::ranges::find(graph.inputs, one.label, &NamedValue::name);
  const int64_t positions = graph.value(input->value).type.row_elements();
  counts.labels.push_back({one.label, one.mean.count(), counts.samples * positions, positions > 1});
  return {};
}

Status SourceMeasures::finish(StopFlag stop, MeasuredSource& counts, Evaluation& evaluation) {
  for (One& one : all_) {
    XRUN_TRY(count_labels(one, counts));
    double value = one.mean.value();
    if (one.measure.neighbours > 0) {
      const Result<double> recall = one.recall.measure(threads_of(session_), stop);
      XRUN_TRY(session_.agree(recall.ok() ? Status() : Status(recall.error())));
      value = recall.value();
    } else if (one.measure.verification) {
      Result<VerifiedPairs> verified = verify(one, stop);
      XRUN_TRY(session_.agree(verified.ok() ? Status() : Status(verified.error())));
      value = verified->accuracy;
      verified->synthetic = counts.synthetic;
      evaluation.verified.push_back(std::move(verified).value());
    }
    evaluation.metrics.push_back({one.measure.key, value, counts.synthetic});
  }
  return {};
}

}  // namespace xrun::runtime
