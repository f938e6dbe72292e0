// The unit and the legal range of a figure in the groups `device` and `calibration` of a cluster's node.
#pragma once

#include <string_view>

#include "lang/text/number.h"

namespace xrun::lang {

struct Figure {
  Dimension dimension = Dimension::kPlain;
  double low = 0;  // bounds in the base unit, both inclusive
  double high = 0;
  std::string_view range;  // the bounds as in a text: "1ns to 1h"
};

inline constexpr Figure kMemoryFigure{Dimension::kSize, 0x1p20, 1e6 * 0x1p40, "1MiB to 1_000_000TiB"};
inline constexpr Figure kRateFigure{Dimension::kRate, 1e6, 1e15, "1MB/s to 1_000TB/s"};
inline constexpr Figure kComputeFigure{Dimension::kCompute, 1e6, 1e18, "0.001GFLOPS to 1_000PFLOPS"};
inline constexpr Figure kTimeFigure{Dimension::kTime, 0, 3600, "0s to 1h"};
inline constexpr Figure kCallFigure{Dimension::kTime, 1e-9, 3600, "1ns to 1h"};
inline constexpr Figure kPixelFigure{Dimension::kTime, 1e-12, 1e-3, "0.001ns to 1ms"};
inline constexpr Figure kFlopsFigure{Dimension::kPlain, 0, 1e18, "0 to 1e18"};
inline constexpr Figure kBytesFigure{Dimension::kSize, 1, 1e15, "1B to 1_000TB"};
inline constexpr Figure kFactorFigure{Dimension::kPlain, 0.1, 1000, "0.1 to 1000"};

}  // namespace xrun::lang
