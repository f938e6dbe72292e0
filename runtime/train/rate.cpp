#include "runtime/train/rate.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "graph/step_sizes.h"

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

// The part of an epoch that a unit is.
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
  for (const CurveSpec& spec : train.lr) {
    CurvePiece piece;
    piece.kind = kind_of(spec.kind);
    piece.from = spec.from;
    piece.to = spec.to;
    piece.steps = spec.span ? spec.span->steps(samples, train.unit()) : rest / static_cast<double>(open);
    piece.power = spec.power;
    piece.by = spec.by;
    for (const TrainSpan& at : spec.at) {
      piece.at.push_back(at.steps(samples, train.unit()));
    }
    curve.pieces.push_back(std::move(piece));
  }
  return curve;
}

Status check_curve(const TrainSpec& train, int64_t samples) {
  if (train.growth) {
    const double grown =
        train.growth->after.steps(samples, train.unit()) + train.growth->over.steps(samples, train.unit());
    if (const auto run = static_cast<double>(units_of_run(train, samples)); std::floor(grown) > run) {
      return Error{ErrorKind::kContent, "XG0511",
                   fmt::format("the batch grows for {:.2f} epochs, and the whole run has {:.2f}",
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
                     fmt::format("the curves before this one take {:.0f} {}, the whole run has {}", given,
                                 units_text(train), units_of_run(train, samples)),
                     "shorten them, or train longer", spec.source};
      }
      return {};
    }
    given += spec.span ? spec.span->steps(samples, train.unit()) : 0;
  }
  // A span in epochs may end within the last step.
  const double gap = static_cast<double>(units_of_run(train, samples)) - given;
  if (train.lr.empty() || std::abs(gap) < 1) {
    return {};
  }
  return Error{ErrorKind::kContent, "XG0506",
               fmt::format("the curves cover {:.0f} {}, the run has {}: {:.0f} {}", given, units_text(train),
                           units_of_run(train, samples), std::abs(gap), gap > 0 ? "are missing" : "are too many"),
               "leave out the span of the last curve: it then fills the rest of the run", train.lr.back().source};
}

}  // namespace xrun::runtime
