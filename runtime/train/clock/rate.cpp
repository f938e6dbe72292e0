#include "runtime/train/clock/rate.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "graph/settings/step_sizes.h"

namespace xrun::runtime {
namespace {

CurvePiece::Kind kind_of(const std::string& kind) {
  if (kind == "warmup") {
    return CurvePiece::kWarmup;
  }
  if (kind == "cosine") {
    return CurvePiece::kCosine;
  }
  if (kind == "poly") {
    return CurvePiece::kPoly;
  }
  return kind == "steps" ? CurvePiece::kSteps : CurvePiece::kConstant;
}

std::string_view units_text(const TrainSpec& train) { return train.growth ? "batches of the first size" : "steps"; }

// Returns the length of a time unit, in epochs.
double epoch_of(const TrainSpec& train, int64_t samples) {
  return static_cast<double>(train.unit()) / static_cast<double>(samples);
}

}  // namespace

Curve make_curve(const TrainSpec& train, int64_t samples) {
  double given = 0;
  int64_t open = 0;
  for (const CurveSpec& spec : train.lr) {
    given += spec.span ? spec.span->steps(samples, train.unit()) : 0;
    open += spec.span ? 0 : 1;
  }
  const double rest = std::max(0.0, static_cast<double>(units_of_run(train, samples)) - given);
  Curve curve;
  double begin = 0;
  for (const CurveSpec& spec : train.lr) {
    CurvePiece piece;
    piece.kind = kind_of(spec.kind);
    piece.from = spec.from;
    piece.to = spec.to;
    piece.steps = spec.span ? spec.span->steps(samples, train.unit()) : rest / static_cast<double>(open);
    piece.power = spec.power;
    piece.by = spec.by;
    for (const TrainSpan& at : spec.at) {
      piece.at.push_back(at.steps(samples, train.unit()) - begin);
    }
    begin += piece.steps;
    curve.pieces.push_back(std::move(piece));
  }
  return curve;
}

namespace {

// Checks that a step begins at or after each time in the curve's list `at`, and that the times ascend. `begin`: start
// of the curve, in units.
Status check_times(const TrainSpec& train, const CurveSpec& curve, double begin, int64_t samples) {
  const StepSizes sizes(train, samples);
  const auto last = static_cast<double>(sizes.begin_of(sizes.steps() - 1));
  const auto refuse = [&](std::string message, std::string help) {
    return Error{ErrorKind::kContent, "XG0506", std::move(message), std::move(help), curve.source};
  };
  double before = begin;
  for (const TrainSpan& at : curve.at) {
    const double unit = at.steps(samples, train.unit());
    const std::string found = at.unit == TrainSpan::kSteps
                                  ? to_text(at)
                                  : fmt::format("{}, which is {:.6g} {},", to_text(at), unit, units_text(train));
    if (unit > last) {
      return refuse(fmt::format("{} is never reached: the last step of the run begins after {:.0f} {}", found, last,
                                units_text(train)),
                    "leave it out of `at`, or train longer");
    }
    if (!(unit > before)) {
      return refuse(
          before == begin
              ? fmt::format("{} is not after the start of `steps`, which is {:.6g} {} after the start of the run",
                            found, begin, units_text(train))
              : fmt::format("the times of `steps` must rise, but {} is not after the {:.6g} {} before it", found,
                            before, units_text(train)),
          "`at` is counted from the start of the run: write later times, in order");
    }
    before = unit;
  }
  return {};
}

// Applies check_times to all curves.
Status check_all_times(const TrainSpec& train, int64_t samples) {
  double begin = 0;
  for (const CurveSpec& curve : train.lr) {
    if (!curve.at.empty()) {
      XRUN_TRY(check_times(train, curve, begin, samples));
    }
    begin += curve.span ? curve.span->steps(samples, train.unit()) : 0;
  }
  return {};
}

}  // namespace

Status check_curve(const TrainSpec& train, int64_t samples) {
  if (train.growth) {
    const double grown =
        train.growth->after.steps(samples, train.unit()) + train.growth->over.steps(samples, train.unit());
    if (const auto run = static_cast<double>(units_of_run(train, samples)); std::floor(grown) > run) {
      return Error{ErrorKind::kContent, "XG0511",
                   fmt::format("the batch grows for {:.2f} epochs, but the whole run has {:.2f}",
                               grown * epoch_of(train, samples), run * epoch_of(train, samples)),
                   "make `over` or `after` shorter, or train longer", train.growth->span};
    }
  }
  double given = 0;
  for (const CurveSpec& spec : train.lr) {
    if (!spec.span && &spec == &train.lr.back()) {
      const double rest = static_cast<double>(units_of_run(train, samples)) - given;
      if (rest < 0) {
        return Error{ErrorKind::kContent, "XG0506",
                     fmt::format("the curves before this one take {:.0f} {}, but the whole run has {}", given,
                                 units_text(train), units_of_run(train, samples)),
                     "shorten them, or train longer", spec.source};
      }
      return check_all_times(train, samples);
    }
    given += spec.span ? spec.span->steps(samples, train.unit()) : 0;
  }
  // If spans are in epochs, the curve may end within the last step.
  const double gap = static_cast<double>(units_of_run(train, samples)) - given;
  if (train.lr.empty() || std::abs(gap) < 1) {
    return check_all_times(train, samples);
  }
  return Error{ErrorKind::kContent, "XG0506",
               fmt::format("the curves cover {:.0f} {}, but the run has {}: {:.0f} {}", given, units_text(train),
                           units_of_run(train, samples), std::abs(gap), gap > 0 ? "are missing" : "are too many"),
               "leave out the span of the last curve: it then fills the rest of the run", train.lr.back().source};
}

}  // namespace xrun::runtime
