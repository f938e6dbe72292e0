// Measures builds of the graph of nearest classes over synthetic rows, on one device. Also measures the machine's rate
// of products with each build.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "ops/simd/isa.h"
#include "runtime/bench/roofline.h"

namespace xrun::runtime {

struct KnnCase {
  int64_t classes = 0;
  int64_t dim = 0;
  int64_t neighbours = 0;
  int64_t probes = 0;  // number of cells whose classes a class is compared with; 0: exact graph with all classes
  int threads = 1;
  int rounds = 1;
  // Writes the row of a class; called from several threads. Empty: random rows.
  std::function<void(int64_t c, std::span<float> row)> fill_row;
};

// The number of pairs of different classes, and the operations of their products.
double knn_pairs(const KnnCase& one);
Flops knn_flops(const KnnCase& one);

struct KnnMemory {
  Bytes weights = 0;
  Bytes lists = 0;
  Bytes scratch = 0;
  Bytes recall = 0;  // memory for measuring the recall of an approximate graph
  Bytes roofline = 0;
  Bytes sum() const { return weights + lists + scratch + recall + roofline; }
};

struct KnnRound {
  Elapsed time;
  MachineRate flops;  // the machine's rate of products, measured just after the build
};

struct KnnFigures {
  ops::Isa isa = ops::Isa::kAvx2;
  std::string_view instruction;  // instruction of the products
  KnnMemory memory;
  Bytes before = 0;            // bytes that the process held before it mapped the rows
  Bytes peak = 0;              // the most bytes that the process has held, without the roofline's arrays
  int64_t searched_again = 0;  // number of classes whose neighbours were searched twice for an exact graph
  // For an approximate graph: the pairs compared, its recall, and the time to measure the recall.
  int64_t compared = 0;
  double recall = 1;
  Elapsed recall_time;
  std::vector<KnnRound> rounds;
};

// Measures the builds. Errors: kInfeasible XG0601 memory does not suffice; it is reported before anything is mapped,
// with a number of classes that fits; kUsage XG0802; kWorld XG0801, XG0803.
Result<KnnFigures> measure_knn_build(const KnnCase& one);

}  // namespace xrun::runtime
