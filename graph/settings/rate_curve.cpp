#include "graph/settings/rate_curve.h"

#include <cmath>
#include <numbers>

namespace xrun {
namespace {

// The value of a piece at `t` steps after its start.
double value_of(const CurvePiece& piece, double t) {
  const double share = piece.steps > 0 ? std::fmin(std::fmax(t / piece.steps, 0.0), 1.0) : 1.0;
  switch (piece.kind) {
    case CurvePiece::kConstant:
      return piece.from;
    case CurvePiece::kWarmup:
      return piece.from + (piece.to - piece.from) * share;
    case CurvePiece::kCosine:
      return piece.to + (piece.from - piece.to) * 0.5 * (1 + std::cos(std::numbers::pi * share));
    case CurvePiece::kPoly:
      return piece.to + (piece.from - piece.to) * std::pow(1 - share, piece.power);
    case CurvePiece::kSteps: {
      double value = piece.from;
      for (const double at : piece.at) {
        value *= t >= at ? piece.by : 1.0;
      }
      return value;
    }
  }
  return piece.to;
}

}  // namespace

double Curve::at(int64_t step) const {
  auto t = static_cast<double>(step);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (t < pieces[i].steps || i + 1 == pieces.size()) {
      return value_of(pieces[i], t);
    }
    t -= pieces[i].steps;
  }
  return 0;
}

}  // namespace xrun
