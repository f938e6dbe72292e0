// The result of `verification` as text and as JSON, for `eval` and for the progress of a run
// (docs/reference/command/eval.md, "Verification").
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/train/events/verified_pairs.h"

namespace xrun::cli {

// "lfw   6 000 pairs   accuracy 99.78 ± 0.27 %   threshold 1.31   TAR@FAR=1e-3 99.70 %   12.0 s", with the smallest FAR
// that the number of pairs can measure. `unicode`: whether the output shows characters that are not ASCII.
std::string verified_line(const runtime::VerifiedPairs& verified, bool unicode);

// "TAR@FAR=1e-1 99.93 %   TAR@FAR=1e-2 99.80 %   TAR@FAR<3.3e-4 99.10 %   3 000 pairs of different classes"; empty if
// there is no TAR.
std::string tar_line(const runtime::VerifiedPairs& verified);

// Fields of a line of plain progress: " lfw.pairs=6000 lfw.deviation=0.0027 lfw.threshold=1.31 lfw.tar@1e-3=0.9970".
std::string verified_fields(const runtime::VerifiedPairs& verified);

// {pairs, different, left_out, folds, accuracy, deviation, threshold, tar_at_far}; without the curve.
nlohmann::ordered_json verified_json(const runtime::VerifiedPairs& verified);

}  // namespace xrun::cli
