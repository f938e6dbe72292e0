// Measures how fast samples of a source become rows of a batch: on one core, part by part, and by the loader.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/graph.h"
#include "runtime/data/sample_rows.h"

namespace xrun::runtime {

struct DataCase {
  int64_t samples = 0;  // samples of a round
  int64_t batch = 0;    // rows of the loader's batches
  uint64_t seed = 1;
  int rounds = 1;
  int threads = 1;  // threads of the loader
};

// One part of the work on a sample: "read", "decode", "resize", a stage, "store", which writes the row, or "mix", which
// mixes the row with that of another sample. The parts of all inputs with the same name are one part.
struct DataPart {
  std::string name;
  std::vector<Seconds> seconds;  // processor time of a sample, by round
};

struct DataFigures {
  std::vector<DataPart> parts;   // in the order of their first use
  std::vector<Seconds> seconds;  // processor time of a sample for all parts, by round
  std::vector<double> loaded;    // samples a second from the loader, by wall time, by round
  int64_t broken = 0;            // broken samples that the rounds on one core met; they do not count
};

// Fills rows in the order of training and with the random draws of training. Each round fills `samples` rows on this
// thread, and then takes about as many from a loader. A first round of both is not counted. Errors: those of
// SampleRows::fill, except for broken samples; XG0408 too many samples are broken.
Result<DataFigures> measure_data(std::unique_ptr<SampleRows> rows, const Graph& graph, const DataCase& one);

}  // namespace xrun::runtime
