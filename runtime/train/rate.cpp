#include "runtime/train/rate.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace xrun::runtime {
namespace {

// Spans such as 3 epochs of 1000 samples in batches of 10 come out a little above or below a whole number.
constexpr double kSlack = 1e-9;

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

}  // namespace

int64_t total_steps(const TrainSpec& train, int64_t samples) {
  return static_cast<int64_t>(std::ceil(train.duration.steps(samples, train.batch) * (1 - kSlack)));
}

Curve make_curve(const TrainSpec& train, int64_t samples) {
  double given = 0;
  int64_t open = 0;
  for (const CurveSpec& spec : train.lr) {
    given += spec.span ? spec.span->steps(samples, train.batch) : 0;
    open += spec.span ? 0 : 1;
  }
  const double rest = std::max(0.0, static_cast<double>(total_steps(train, samples)) - given);
  Curve curve;
  for (const CurveSpec& spec : train.lr) {
    CurvePiece piece;
    piece.kind = kind_of(spec.kind);
    piece.from = spec.from;
    piece.to = spec.to;
    piece.steps = spec.span ? spec.span->steps(samples, train.batch) : rest / static_cast<double>(open);
    piece.power = spec.power;
    piece.by = spec.by;
    for (const TrainSpan& at : spec.at) {
      piece.at.push_back(at.steps(samples, train.batch));
    }
    curve.pieces.push_back(std::move(piece));
  }
  return curve;
}

Status check_curve(const TrainSpec& train, int64_t samples) {
  double given = 0;
  for (const CurveSpec& spec : train.lr) {
    if (!spec.span && &spec == &train.lr.back()) {
      const double rest = static_cast<double>(total_steps(train, samples)) - given;
      if (rest < 0) {
        return Error{ErrorKind::kContent, "XG0506",
                     fmt::format("the curves before this one take {:.0f} steps, the whole run has {}", given,
                                 total_steps(train, samples)),
                     "shorten them, or train longer", spec.source};
      }
      return {};
    }
    given += spec.span ? spec.span->steps(samples, train.batch) : 0;
  }
  // A span in epochs may end within the last step.
  const double gap = static_cast<double>(total_steps(train, samples)) - given;
  if (train.lr.empty() || std::abs(gap) < 1) {
    return {};
  }
  return Error{ErrorKind::kContent, "XG0506",
               fmt::format("the curves cover {:.0f} steps, the run has {}: {:.0f} {}", given,
                           total_steps(train, samples), std::abs(gap), gap > 0 ? "are missing" : "are too many"),
               "leave out the span of the last curve: it then fills the rest of the run", train.lr.back().source};
}

bool is_due(const TrainSpan& every, int64_t done, int64_t samples, int64_t batch) {
  const double steps = every.steps(samples, batch);
  if (steps <= 0) {
    return false;
  }
  const auto times = [&](int64_t count) { return std::floor(static_cast<double>(count) / steps * (1 + kSlack)); };
  return times(done) > times(done - 1);
}

}  // namespace xrun::runtime
