// Finds matrices that an ONNX file has in pieces: the classes of a large head are rows of several constants.
#pragma once

#include <map>
#include <onnx/onnx_pb.h>
#include <string>
#include <vector>

namespace xrun::runtime {

class MatrixPieces {
 public:
  // Takes a node of the main graph; nodes other than `Gemm` and `Concat` are ignored.
  void add(const onnx::NodeProto& node);

  // Returns the names of the constants of each matrix, and of each bias: OnnxInitializers::pieces. Call it once, after
  // all nodes.
  std::vector<std::vector<std::string>> joined();

 private:
  struct Product {
    std::string x, weight, bias;
  };
  std::map<std::string, Product> products_;       // key: result
  std::vector<std::vector<std::string>> joints_;  // results that a Concat joins along the second dimension
};

}  // namespace xrun::runtime
