// Heads in pieces: what `xrun export` cuts, `xrun import` joins.
#include "runtime/interchange/weights/onnx_pieces.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

#include "lang/frontend.h"
#include "ops/catalog.h"
#include "ops/onnx/convert.h"
#include "runtime/interchange/onnx_module.h"
#include "tests/runtime/interchange/weights/weights.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using xrun::testing::TemporaryDirectory;

constexpr int64_t kClasses = 11;
constexpr int64_t kDim = 3;

std::optional<lang::CheckedFile> checked(const std::string& body) {
  SourceMap sources;
  Diagnostics diagnostics;
  auto file = lang::check_text("m.xgraph", "xgraph 1\nmodel m {\n  input x: f32[N, 3]\n" + body + "}\n", sources,
                               diagnostics, {.ops = &ops::registry()});
  EXPECT_TRUE(file.has_value());
  return file;
}

// Numbers that differ in all rows, and in both parameters.
float number(const ops::OnnxTensor& constant, int64_t row, int64_t column) {
  return static_cast<float>(1000 * (constant.param.index + 1) + 10 * row + column);
}

void fill(const ops::OnnxTensor& constant, std::byte* out) {
  const int64_t columns = constant.dims.size() > 1 ? constant.dims[1] : 1;
  for (int64_t r = 0; r < constant.dims[0]; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const float value = number(constant, constant.first_row + r, c);
      std::memcpy(out + (r * columns + c) * static_cast<int64_t>(sizeof value), &value, sizeof value);
    }
  }
}

// Writes the model with pieces of `rows` class rows, and opens the file as weights.
std::unique_ptr<WeightFile> exported(const lang::CheckedFile& file, int64_t rows, const std::string& folder,
                                     Bytes most_inside, int64_t pieces) {
  auto graph = ops::to_onnx("m", file.module.graph,
                            {.heads = {{"id", 0}}, .form = {.piece = rows * kDim * static_cast<Bytes>(sizeof(float))}});
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  const auto is_product = [](const ops::OnnxNode& node) { return node.op == "Gemm"; };
  EXPECT_EQ(std::ranges::count_if(graph->nodes, is_product), pieces);
  const OnnxFile place{.path = folder + "/m.onnx", .data_name = "m.onnx.data", .most_inside = most_inside};
  const auto written = write_onnx(*graph, fill, place);
  EXPECT_TRUE(written.ok()) << written.error().message;
  return open_weights(place.path);
}

TEST(OnnxPieces, AHeadInPiecesComesBackWhole) {
  const auto file = checked("  y = x\n  output y\n  head id = classifier(x, 11)\n");
  ASSERT_TRUE(file.has_value());
  for (const int64_t rows : {11, 10, 6, 4, 1}) {
    for (const Bytes most_inside : {Bytes{0}, kGiB}) {
      const TemporaryDirectory directory;
      const auto weights = exported(*file, rows, directory.path(), most_inside, (kClasses + rows - 1) / rows);
      ASSERT_NE(weights, nullptr);
      std::vector<std::string> names;
      std::ranges::transform(weights->tensors(), std::back_inserter(names), &WeightTensor::name);
      EXPECT_THAT(names, ::testing::IsSupersetOf({"id.weight", "id.bias"})) << rows;
      EXPECT_EQ(std::ranges::count_if(names, [](const std::string& name) { return name.starts_with("id."); }), 2);
      const std::vector<float> values = values_of(*weights, "id.weight");
      ASSERT_EQ(std::ssize(values), kClasses * kDim) << rows;
      const float first = values[0];
      for (int64_t r = 0; r < kClasses; ++r) {
        for (int64_t c = 0; c < kDim; ++c) {
          EXPECT_EQ(values[static_cast<size_t>(r * kDim + c)], first + static_cast<float>(10 * r + c));
        }
      }
      const std::vector<float> bias = values_of(*weights, "id.bias");
      ASSERT_EQ(std::ssize(bias), kClasses);
      EXPECT_EQ(bias.back() - bias.front(), 100);
    }
  }
}

// y = joint of x · aᵀ and x · bᵀ.
ops::OnnxGraph two_branches(const std::string& a, const std::string& b, int64_t columns_of_b = 3) {
  ops::OnnxGraph graph{.name = "two"};
  graph.inputs = {{"x", ops::OnnxType::kFloat, {kBatch, 3}}};
  graph.outputs = {{"y", ops::OnnxType::kFloat, {kBatch, 4}}};
  graph.constants = {{.name = a, .dims = {2, 3}, .param = ParamId(0)},
                     {.name = b, .dims = {2, columns_of_b}, .param = ParamId(1)}};
  graph.nodes = {{"Gemm", "first", {"x", a}, {"p"}, {{"transB", int64_t{1}}}},
                 {"Gemm", "second", {"x", b}, {"q"}, {{"transB", int64_t{1}}}},
                 {"Concat", "joint", {"p", "q"}, {"y"}, {{"axis", int64_t{1}}}}};
  return graph;
}

TEST(OnnxPieces, BranchesWithNamesOfTheirOwnStayApart) {
  const TemporaryDirectory directory;
  const OnnxFile place{.path = directory.path() + "/m.onnx", .data_name = "m.onnx.data"};
  ASSERT_TRUE(write_onnx(two_branches("p.weight", "q.weight"), fill, place).ok());
  EXPECT_EQ(open_weights(place.path)->format(), "ONNX, 2 tensors");
  ASSERT_TRUE(write_onnx(two_branches("p.weight", "p.weight_2"), fill, place).ok());
  EXPECT_EQ(show(*open_weights(place.path)),
            "p.weight FLOAT [4, 3] 1000 1001 1002 1010 1011 1012 2000 2001 2002 2010 2011 2012\n");
}

TEST(OnnxPieces, AHeadForTwoInputsIsJoinedOnce) {
  const TemporaryDirectory directory;
  const OnnxFile place{.path = directory.path() + "/m.onnx", .data_name = "m.onnx.data"};
  ops::OnnxGraph graph = two_branches("p.weight", "p.weight_2");
  graph.nodes.push_back({"Gemm", "third", {"x", "p.weight"}, {"r"}, {{"transB", int64_t{1}}}});
  graph.nodes.push_back({"Gemm", "fourth", {"x", "p.weight_2"}, {"s"}, {{"transB", int64_t{1}}}});
  graph.nodes.push_back({"Concat", "second_joint", {"r", "s"}, {"z"}, {{"axis", int64_t{1}}}});
  ASSERT_TRUE(write_onnx(graph, fill, place).ok());
  EXPECT_EQ(open_weights(place.path)->format(), "ONNX, 1 tensor");
}

TEST(OnnxPieces, RowsOfPiecesThatAddUpToTooManyAreRejected) {
  WeightContents contents{.path = "m.onnx"};
  for (const char* name : {"p.weight", "p.weight_2"}) {
    contents.tensors.push_back({.name = name, .dims = {int64_t{1} << 62, 0}});
    contents.places.push_back({.dims = {int64_t{1} << 62, 0}});
  }
  const std::vector<std::string> names{"p.weight", "p.weight_2"};
  const Status joined = join_onnx_pieces(std::span(&names, 1), contents);
  ASSERT_FALSE(joined.ok());
  EXPECT_THAT(joined.error().message, HasSubstr("the pieces of p.weight have too many rows"));
}

TEST(OnnxPieces, PiecesWhoseRowsDifferAreRejected) {
  const TemporaryDirectory directory;
  const OnnxFile place{.path = directory.path() + "/m.onnx", .data_name = "m.onnx.data"};
  ASSERT_TRUE(write_onnx(two_branches("p.weight", "p.weight_2", 4), fill, place).ok());
  EXPECT_THAT(error_of(place.path), AllOf(StartsWith("XG0412"), HasSubstr("p.weight and p.weight_2 are pieces of one "
                                                                          "matrix, but their rows differ")));
}

}  // namespace
}  // namespace xrun::runtime
