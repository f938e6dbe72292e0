// Example calls of every operator that can run. The conformance suite tests each operator with them.
#pragma once

#include <string>
#include <vector>

#include "graph/types/attr.h"
#include "graph/types/tensor_type.h"

namespace xrun::ops {

struct Case {
  std::string op;
  std::vector<std::vector<int64_t>> inputs;  // dims of each input after the batch
  Attrs attrs;
  double low = -1;  // inputs are drawn from low .. high
  double high = 1;
  int64_t rows = 4;
  bool smooth = true;   // false: a wide tolerance for bf16, since rounding may cross a kink
  int64_t classes = 0;  // above 0: the last input holds whole numbers below it: index(classes)[N, ...]
  bool zeros = false;   // every other element of the first input is 0
  std::vector<std::vector<int64_t>> params = {};  // dims of parameters that follow the inputs as operands
};

inline std::vector<Case> conformance_cases() {
  const Attrs conv{{"width", int64_t{24}},   {"k", int64_t{3}},      {"stride", int64_t{1}}, {"pad", int64_t{1}},
                   {"dilation", int64_t{1}}, {"groups", int64_t{1}}, {"bias", false}};
  const auto with = [](Attrs attrs, std::string_view name, AttrValue value) {
    attrs.set(name, std::move(value));
    return attrs;
  };
  const Attrs dotted{{"width", int64_t{8}},    {"k", int64_t{1}},      {"stride", int64_t{2}}, {"pad", int64_t{0}},
                     {"dilation", int64_t{1}}, {"groups", int64_t{1}}, {"bias", false}};
  const Attrs heads{{"heads", int64_t{2}}, {"qkv_bias", true}};
  const Attrs bn{{"momentum", 0.1}, {"eps", 1e-5}};
  const Attrs pool{{"k", int64_t{3}}, {"stride", int64_t{2}}, {"pad", int64_t{1}}};
  const auto pair = [](int64_t height, int64_t width) { return std::vector<int64_t>{height, width}; };
  const auto dims = [](std::vector<int64_t> all) { return all; };
  const auto rule = [](const char* text) { return Attrs{{"rule", std::string(text)}}; };
  return {
      {"linear", {{20}}, {{"out", int64_t{33}}, {"bias", true}}},
      {"linear", {{5, 16}}, {{"out", int64_t{8}}, {"bias", false}}},
      {"linear", {{3, 5, 16}}, {{"out", int64_t{8}}, {"bias", true}}},
      {"matmul", {{5, 7}, {7, 4}}, {}},
      {"matmul", {{3, 20, 17}, {3, 17, 33}}, {}},
      {"matmul", {{2, 3, 4, 5}, {2, 3, 5, 6}}, {}},
      {"matmul", {{1, 9}, {9, 1}}, {}},
      {.op = "matmul", .inputs = {{5, 7}}, .attrs = {}, .params = {{7, 4}}},
      {.op = "matmul", .inputs = {{6}}, .attrs = {}, .params = {{6, 9}}},
      {.op = "einsum", .inputs = {{5, 7, 4}}, .attrs = rule("nhwc,dch->nwd"), .params = {{3, 4, 5}}},
      {.op = "einsum", .inputs = {{5, 6}}, .attrs = rule("nij,jkl->nik"), .params = {{6, 4, 2}}},
      {.op = "einsum", .inputs = {{5, 6}}, .attrs = rule("nij,kj->nik"), .params = {{7, 6}}},
      {"einsum", {{5, 7}, {7, 4}}, rule("nij,njk->nki")},
      {"einsum", {{6, 5, 4}, {6, 4}}, rule("nhwc,nhc->nw")},
      {"einsum", {{5, 8}, {5, 8}}, rule("nia,nja->nij")},
      {"einsum", {{9}, {6}}, rule("ni,nj->nij")},
      {"einsum", {{4, 6}, {5, 3}}, rule("bij,bkl->bki")},  // j and l are summed before the product
      {"einsum", {{4, 3, 5}, {5}}, rule("nabc,nc->nbca")},
      {"conv", {{16, 7, 7}}, conv},
      {"conv", {{32, 7, 10}}, with(conv, "width", int64_t{48})},  // Winograd
      {"conv", {{3, 9, 8}}, with(with(conv, "stride", int64_t{2}), "bias", true)},
      {"conv", {{1, 8, 8}}, with(conv, "stride", int64_t{2})},
      {"conv", {{32, 6, 6}}, with(with(conv, "k", int64_t{1}), "pad", int64_t{0})},
      {"conv", {{16, 8, 8}}, with(with(conv, "dilation", int64_t{2}), "pad", int64_t{2})},
      {"conv", {{16, 6, 6}}, with(with(conv, "groups", int64_t{4}), "width", int64_t{32})},
      {"conv", {{6, 5, 5}}, with(with(with(conv, "groups", int64_t{2}), "width", int64_t{4}), "bias", true)},
      {"conv", {{8, 4, 4}}, with(conv, "width", int64_t{8})},
      {"conv", {{16, 4, 3}}, with(with(conv, "groups", int64_t{2}), "width", int64_t{16})},
      {"conv", {{3, 32, 32}}, with(with(with(conv, "k", int64_t{16}), "stride", int64_t{16}), "pad", int64_t{0})},
      {"conv", {{16, 7, 6}}, with(with(conv, "k", pair(1, 7)), "pad", pair(0, 3))},
      {"conv",
       {{6, 9, 8}},
       with(with(with(with(conv, "k", pair(3, 2)), "stride", pair(1, 2)), "dilation", pair(2, 1)), "bias", true)},
      {"conv", {{4, 16, 16}}, dotted},
      {"conv", {{7, 9, 8}}, with(dotted, "stride", pair(3, 2))},
      {"conv", {{4, 9, 9}}, with(dotted, "pad", int64_t{1})},
      {"dwconv", {{32, 6, 6}}, {{"k", int64_t{3}}, {"stride", int64_t{1}}}},
      {"dwconv", {{16, 7, 7}}, {{"k", int64_t{5}}, {"stride", int64_t{2}}}},
      {"deconv", {{16, 4, 5}}, with(with(with(conv, "k", int64_t{2}), "stride", int64_t{2}), "pad", int64_t{0})},
      {"deconv", {{3, 5, 5}}, with(with(with(conv, "k", int64_t{4}), "stride", int64_t{2}), "bias", true)},
      {"deconv", {{32, 6, 7}}, with(conv, "bias", true)},
      {"dwconv", {{16, 5, 8}}, {{"k", pair(1, 5)}, {"stride", pair(1, 2)}}},
      {"deconv", {{5, 4, 5}}, with(with(with(conv, "k", pair(2, 3)), "stride", pair(2, 1)), "pad", pair(0, 1))},
      {"bn", {{20, 5, 5}}, bn},
      {"bn", {{37}}, bn, -2, 3, 16},
      {"bn", {{16, 4, 4}}, with(bn, "relu", true), -1, 1, 4, false},
      {"bn", {{16, 4, 4}}, with(bn, "then", std::string("x0 * sigmoid(x0)"))},
      {"bn", {{20, 9, 9}}, with(bn, "then", std::string("tanh(x0) + 0.5 * x0"))},
      {"bn", {{300}}, with(bn, "then", std::string("x0 * sigmoid(x0)")), -2, 3, 16},
      {"bn.add", {{20, 5, 5}, {20, 5, 5}}, bn, -1, 1, 4, false},
      {"bn.add", {{37}, {37}}, with(bn, "relu", true), -1, 1, 16, false},
      {"bn.add", {{300}, {300}}, bn, -2, 3, 70, false},
      {"bn.prelu", {{20, 5, 5}}, bn, -1, 1, 4, false},
      {"bn.prelu", {{37}}, bn, -2, 3, 16, false},
      {"bn.prelu", {{300}}, bn, -2, 3, 70, false},
      {"dropout", {{40}}, {{"p", 0.3}}},
      {"relu", {{6, 5, 5}}, {}, -1, 1, 4, false},
      {"gelu", {{30}}, {}, -3, 3},
      {"silu", {{30}}, {}, -3, 3},
      {"sigmoid", {{30}}, {}, -3, 3},
      {"tanh", {{30}}, {}, -3, 3},
      {"exp", {{30}}, {}, -3, 3},
      {"log", {{30}}, {}, 0.3, 3},
      {"sqrt", {{30}}, {}, 0.3, 3},
      {"abs", {{30}}, {}, -1, 1, 4, false},
      {"neg", {{30}}, {}},
      {"clamp", {{30}}, {{"a", -0.5}, {"b", 0.6}}, -1, 1, 4, false},
      {"erf", {{30}}, {}, -2, 2},
      {"sin", {{30}}, {}, -3, 3},
      {"cos", {{30}}, {}, -3, 3},
      {"acos", {{30}}, {}, -0.9, 0.9},
      {"power", {{30}}, {{"exponent", 3.0}}, 0.5, 2},
      {"power", {{30}}, {{"exponent", -1.0}}, 0.5, 2},
      {"scale_shift", {{30}}, {{"scale", 2.5}, {"shift", -1.0}}},
      {"add", {{6, 3, 3}, {6, 3, 3}}, {}},
      {"add", {{6, 3, 3}, {6, 3, 3}}, {{"relu", true}}, -1, 1, 4, false},
      {"add", {{6, 3, 3}, {6, 1, 1}}, {}},
      {"sub", {{7, 5}, {1, 5}}, {}},
      {"mul", {{6, 3, 3}, {6, 1, 1}}, {}},
      {"mul", {{1, 3, 3}, {5, 3, 3}}, {}},
      {"div", {{9}, {9}}, {}, 0.5, 2},
      {"div", {{9}, {1}}, {}, 0.5, 2},
      {"map", {{30}}, {{"y", std::string("x0 * sigmoid(1.5 * x0)")}}},
      {"map", {{6, 7, 7}, {6, 1, 1}}, {{"y", std::string("tanh(x0) * x1 + cos(x1 - x0) / 3")}}},
      {"map", {{1, 5}, {7, 1}, {7, 5}}, {{"y", std::string("erf(x0) * exp(x1 * x2) - x0")}}},
      {"map",
       {{300}},
       {{"y", std::string("max(x0, 0.25) + select(x0 < 0, acos(x0), sin(3 * x0))")}},
       -0.9,
       0.9,
       4,
       false},
      {"map", {{9}, {9}}, {{"y", std::string("log(x0) ^ 2 + sqrt(x1) * x0 ^ 2.5 + abs(x1)")}}, 0.5, 2},
      {.op = "map", .inputs = {{5, 20}}, .attrs = {{"y", std::string("x0 * x1 + x2 * x2")}}, .params = {{20}, {5, 1}}},
      {.op = "map", .inputs = {{6, 5, 4}}, .attrs = {{"y", std::string("x0 * exp(x1)")}}, .params = {{6, 1, 1}}},
      {.op = "where", .inputs = {{9}, {9}, {9}}, .attrs = {}, .zeros = true},
      {"flatten", {{6, 3, 5}}, {{"from", int64_t{1}}}},
      {"flatten", {{6, 3, 5}}, {{"from", int64_t{2}}}},
      {"reshape", {{6, 4}}, {{"shape", std::vector<int64_t>{kBatch, 4, 3, 2}}}},
      {"reshape", {{6, 4, 2}}, {{"shape", std::vector<int64_t>{kBatch, 4, 3, 4}}}},
      {"reorder", {{6, 4, 3}}, {{"to", std::string("row_major")}}},
      {"reorder", {{6, 1, 3}}, {{"to", std::string("row_major")}}},
      {"transpose", {{6, 4}}, {{"a", int64_t{1}}, {"b", int64_t{2}}}},
      {"transpose", {{6, 4, 3}}, {{"a", int64_t{1}}, {"b", int64_t{-1}}}},
      {"concat", {{3, 2, 2}, {5, 2, 2}}, {{"axis", int64_t{1}}}},
      {"concat", {{3}, {5}, {2}}, {{"axis", int64_t{-1}}}},
      {"slice", {{6, 4, 3}}, {{"axis", int64_t{1}}, {"begin", int64_t{2}}, {"end", int64_t{5}}}},
      {"max_pool", {{20, 7, 7}}, pool, -1, 1, 2, false},
      {"max_pool", {{6, 6, 5}}, with(pool, "stride", int64_t{1}), -1, 1, 2, false},
      {"max_pool", {{6, 6, 5}}, with(with(pool, "k", pair(1, 3)), "pad", pair(0, 1)), -1, 1, 2, false},
      {"avg_pool", {{6, 5, 6}}, with(with(with(pool, "k", pair(3, 2)), "stride", pair(2, 1)), "pad", pair(1, 0))},
      {"avg_pool", {{20, 7, 7}}, pool},
      {"avg_pool", {{6, 4, 4}}, with(with(pool, "k", int64_t{2}), "pad", int64_t{0})},
      {"global_avg_pool", {{20, 3, 5}}, {}},
      {"prelu", {{20, 3, 5}}, {}, -1, 1, 4, false},
      {"prelu", {{7}}, {}, -1, 1, 4, false},
      {"layer_norm", {{20}}, {{"eps", 1e-6}}},
      {"layer_norm", {{5, 37}}, {{"eps", 1e-6}}},
      {"layer_norm", {{3, 5, 37}}, {{"eps", 1e-6}}},
      {"rms_norm", {{5, 20}}, {{"eps", 1e-6}}},
      {"rms_norm", {{3, 5, 20}}, {{"eps", 1e-6}}},
      {"group_norm", {{8, 5, 4}}, {{"groups", int64_t{4}}, {"eps", 1e-5}}},
      {"group_norm", {{37, 3, 3}}, {{"groups", int64_t{1}}, {"eps", 1e-5}}, -2, 3},
      {"group_norm", {{48, 2, 2}}, {{"groups", int64_t{3}}, {"eps", 1e-5}}},
      {"drop_path", {{6}}, {{"p", 0.4}}, -1, 1, 16},
      {"attention", {{7, 16}}, {{"heads", int64_t{4}}, {"qkv_bias", true}}},
      {"attention", {{18, 24}}, {{"heads", int64_t{2}}, {"qkv_bias", false}}, -1, 1, 2},
      {"attention", {{7, 16}}, with(with(heads, "causal", true), "relative", true)},
      {"attention", {{20, 16}}, with(with(heads, "causal", true), "qkv_bias", false)},
      {"attention", {{16, 16}}, with(with(with(heads, "window", int64_t{2}), "shift", int64_t{1}), "relative", true)},
      {"attention", {{12, 16}}, with(with(with(heads, "window", int64_t{3}), "height", int64_t{1}), "relative", true)},
      {"attention",
       {{24, 16}},
       with(with(with(heads, "window", int64_t{4}), "height", int64_t{3}), "shift", int64_t{1})},
      {"attention", {{4, 16}}, with(with(heads, "window", int64_t{7}), "shift", int64_t{3})},
      {"mse", {{5, 7}, {5, 7}}, {}},
      {"bce", {{20}, {20}}, {}, 0, 1},
      {"pad", {{3, 4, 5}}, {{"size", int64_t{2}}}},
      {"class_token", {{3, 10}}, {}},
      {"position_embedding", {{4, 10}}, {}},
      {"take", {{4, 10}}, {{"i", int64_t{2}}}},
      {"take", {{4, 3, 5}}, {{"i", int64_t{1}}}},
      {"softmax", {{20}}, {{"axis", int64_t{-1}}}},
      {"softmax", {{5, 3, 4}}, {{"axis", int64_t{1}}}},
      {"l2norm", {{20}}, {{"axis", int64_t{-1}}}},
      {"l2norm", {{5, 6}}, {{"axis", int64_t{1}}}},
      {"mean", {{5, 3, 4}}, {{"axis", int64_t{2}}, {"keep", false}}},
      {"sum", {{5, 3, 4}}, {{"axis", int64_t{1}}, {"keep", true}}},
      {"sum", {{5}}, {{"axis", int64_t{1}}, {"keep", false}}},
      {"map.sum", {{20, 3, 3}, {20, 3, 3}}, {{"y", std::string("x0 * x1")}, {"dims0", dims({kBatch, 20, 1, 1})}}},
      {"map.sum", {{5, 70}, {5, 1}}, {{"y", std::string("x0 * x1")}, {"dims0", dims({70})}}},
      {"map.sum", {{5, 70}}, {{"y", std::string("x0 * x0")}, {"dims0", dims({5, 1})}}, -1, 1, 3},
      {"map.sum", {{4, 9}, {4, 1}}, {{"y", std::string("x0 + x1, x0 * x1")}, {"dims1", dims({kBatch, 4, 1})}}},
      {"sum", {{96}, {1}}, {{"axis", int64_t{1}}, {"keep", true}, {"of", std::string("x0 * x1")}}},
      {"mean", {{5, 80}}, {{"axis", int64_t{2}}, {"keep", false}, {"of", std::string("x0 * x0")}}},
      {"mean", {{70, 3, 4}}, {{"axis", int64_t{1}}, {"keep", true}, {"of", std::string("exp(x0)")}}},
      {"max", {{5, 6}}, {{"axis", int64_t{-1}}, {"keep", false}}, -1, 1, 4, false},
      {"cast", {{9}}, {{"to", std::string("f32")}}},
      {"stop_gradient", {{9}}, {}},
      {"fill", {{9}}, {{"value", 0.25}}},
      {.op = "embed", .inputs = {{}}, .attrs = {{"rows", int64_t{12}}, {"dim", int64_t{20}}}, .classes = 11},
      {.op = "embed", .inputs = {{2, 3}}, .attrs = {{"rows", int64_t{11}}, {"dim", int64_t{5}}}, .classes = 11},
      {.op = "embed", .inputs = {{6}}, .attrs = {{"rows", int64_t{11}}, {"dim", int64_t{5}}}, .classes = 11},
      {.op = "embed_bag",
       .inputs = {{7}},
       .attrs = {{"rows", int64_t{5}}, {"dim", int64_t{20}}, {"mean", true}, {"padding", int64_t{0}}},
       .classes = 4},
      {.op = "embed_bag",
       .inputs = {{3}},
       .attrs = {{"rows", int64_t{12}}, {"dim", int64_t{6}}, {"mean", false}, {"padding", int64_t{-1}}},
       .classes = 12},
      {.op = "softmax_ce", .inputs = {{20}, {}}, .attrs = {{"scale", 2.5}, {"smoothing", 0.1}}, .classes = 20},
      {.op = "softmax_ce", .inputs = {{3, 20}, {3}}, .attrs = {{"scale", 2.5}, {"smoothing", 0.1}}, .classes = 20},
      {.op = "accuracy", .inputs = {{20}, {}}, .attrs = {{"k", int64_t{2}}}, .classes = 20},
      {.op = "accuracy", .inputs = {{6, 20}, {6}}, .attrs = {{"k", int64_t{2}}}, .classes = 20},
      {.op = "recall_at", .inputs = {{20}, {}}, .attrs = {{"k", int64_t{2}}}, .classes = 100'000},
      {"verification", {{20}}, {{"flip", true}, {"folds", int64_t{10}}}},
      {"topk", {{20}}, {{"k", int64_t{3}}}},
      {"state.update", {{20}, {20}}, {{"y", std::string("0.9 * x0 + 0.1 * (x1 - x2 * x2)")}}},
      {"state.update", {{3, 4, 5}}, {{"y", std::string("max(x0, x1)")}}},
  };
}

}  // namespace xrun::ops
