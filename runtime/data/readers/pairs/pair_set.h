// Verification sets, the files lfw.bin, cfp_fp.bin and agedb_30.bin of InsightFace: a pickle of (pictures, flags).
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "runtime/formats/pickle/pickle_input.h"
#include "runtime/formats/pickle/pickle_string.h"

namespace xrun::runtime {

struct PairSet {
  std::vector<PickleString> pictures;  // 2n encoded pictures: the places of their bytes in the file
  std::vector<uint8_t> same;           // n flags: 1 if the pictures 2i and 2i + 1 show the same person
};

// Reads where the pictures are, and the flags. Pictures are bytes, the str of Python 2, or u8 arrays [n] or [n, 1];
// flags are a list of bools, NumPy bools or numbers 0 and 1, or an array. Errors: XG0407 the pickle names a function
// that such a file does not need; XG0412 it is damaged, holds something else, not two pictures for each flag, or needs
// more than `most_memory`; those of the input; kInterrupted.
Result<PairSet> read_pair_set(const PickleInput& input, Bytes most_memory, StopFlag stop = nullptr);

}  // namespace xrun::runtime
