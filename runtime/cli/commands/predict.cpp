// `xrun predict`: names the classes of pictures or of rows of a source, or writes their embeddings.
// Tests: tests/runtime/cli/commands/command_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "planner/program/head_plan.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/model/plan_session.h"
#include "runtime/cli/model/planned.h"
#include "runtime/cli/model/trained_model.h"
#include "runtime/cli/predict/class_lines.h"
#include "runtime/cli/predict/embeddings.h"
#include "runtime/cli/predict/ranking.h"
#include "runtime/cli/predict/subject.h"
#include "runtime/cli/progress/progress.h"
#include "runtime/cli/sources/run_sources.h"

namespace xrun::cli {
namespace {

// Checks the flags as far as possible without a model.
Status check_words(const PredictArgs& args) {
  if (args.images.empty() == args.source.empty()) {
    return usage_error(
        "XG0905",
        args.images.empty() ? "`xrun predict` has nothing to predict" : "files and `--source` exclude one another",
        "name pictures or a table, or rows of a source: --source NAME --rows a..b");
  }
  if (!args.embedding && !args.output.empty()) {
    return usage_error("XG0905", "`-o` has no effect without `--embedding`", "add --embedding");
  }
  if (args.embedding && (args.topk > 0 || !args.scores.empty())) {
    return usage_error("XG0905", {"`--embedding` and `--{}` exclude one another", args.topk > 0 ? "topk" : "scores"},
                       "leave one of them out");
  }
  return check_embedding_path(args.output);
}

Result<std::vector<Ranking>> wanted_rankings(const PlannedModel& planned, int64_t topk) {
  XRUN_ASSIGN(std::vector<Ranking> rankings, find_rankings(planned));
  const int64_t most = std::ranges::max_element(rankings, {}, &Ranking::most)->most;
  if (topk > most) {
    return usage_error("XG0904", {"`--topk {}`: at most {} classes are kept", topk, most}, {"--topk {}", most});
  }
  for (Ranking& ranking : rankings) {
    ranking.from.k = ranking.most;
  }
  return rankings;
}

struct Predicted {
  std::string text;
  int64_t rows = 0;
  std::vector<runtime::BrokenRow> broken;
};

Result<std::vector<RankedClasses>> rank(runtime::Session& session, Subject& subject,
                                        const std::vector<Ranking>& rankings, const runtime::ClassTables& classes,
                                        int64_t topk, runtime::EventSink& events) {
  std::vector<runtime::ClassScores> scores;
  std::ranges::transform(rankings, std::back_inserter(scores), &Ranking::from);
  XRUN_ASSIGN(auto best, runtime::predict_classes(session, subject.rows(), scores, subject.first(), subject.count(),
                                                  &events, &subject.broken));
  XRUN_TRY(subject.check_any_left());
  std::vector<RankedClasses> ranked;
  for (size_t i = 0; i < rankings.size(); ++i) {
    const int64_t k = std::min(topk > 0 ? topk : planner::kShownClasses, best[i].k);
    ranked.push_back(
        {rankings[i].name, ClassNames{runtime::names_in(classes, rankings[i].label)}, std::move(best[i]), k});
  }
  return ranked;
}

Result<Predicted> predict(const PlannedModel& planned, const PredictArgs& args,
                          const Result<runtime::CheckpointInfo>& info, bool json, runtime::EventSink& events) {
  // A wrong --topk must be rejected before data is read, so the rankings are found first.
  std::vector<Ranking> rankings;
  if (!args.embedding) {
    XRUN_ASSIGN(rankings, wanted_rankings(planned, args.topk));
  }
  XRUN_TRY(Subject::check(planned, args));
  XRUN_TRY(check_checkpoint(planned, args.file, args.anyway, info));
  XRUN_ASSIGN(const auto classes, trained_classes(planned, *info));
  XRUN_ASSIGN(const auto devices, start_devices(planned, planned.plan.inference));
  XRUN_ASSIGN(Subject subject, Subject::open(planned, args, {classes, info->manifest.scales}, events));
  XRUN_ASSIGN(const auto session, open_session(planned, *devices, *info, events));
  Predicted predicted{.rows = subject.count()};
  if (args.embedding) {
    const ClassNames names{runtime::names_in(classes, label_input(planned.model.file.module))};
    XRUN_ASSIGN(predicted.text, embeddings(*session, subject, names, args.output, json, events));
  } else {
    XRUN_ASSIGN(const auto ranked, rank(*session, subject, rankings, classes, args.topk, events));
    predicted.text = class_lines(subject, ranked, args.scores.empty() ? "probabilities" : args.scores, json);
  }
  predicted.broken = std::move(subject.broken);
  return predicted;
}

}  // namespace

Outcome<int> run_predict(const GlobalOptions& options, const PredictArgs& args) {
  const Console console(options);
  XRUN_TRY(check_words(args));
  const auto info = runtime::open_checkpoint(args.checkpoint);
  XRUN_ASSIGN(const PlannedModel planned, plan_for(info, args.file, options, console));
  const auto progress = make_progress(options.progress, console);
  auto result = predict(planned, args, info, console.json(), *progress);
  progress->on(runtime::WorkEvent{});
  XRUN_ASSIGN(const Predicted predicted, with_sources(std::move(result), planned.model.sources));
  console.out(predicted.text);
  report_broken(predicted.broken, console);
  if (!predicted.broken.empty() && !console.json()) {
    console.note(fmt::format("note: {} broken and left out\n",
                             counted_of(std::ssize(predicted.broken), predicted.rows, "sample")));
  }
  return 0;
}

}  // namespace xrun::cli
