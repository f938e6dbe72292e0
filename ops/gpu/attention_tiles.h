// One head of a window of self-attention, whose queries and keys are computed by tiles of 64. Only nvcc reads this
// header.
#pragma once

#include "ops/attention/window_cells.h"
#include "ops/gpu/tile_products.h"

namespace xrun::ops {

inline constexpr int kTile = 64;

struct Shape {
  int heads, d;
  WindowCells<int> cells;
  bool causal;

  __device__ int tokens() const { return cells.tokens(); }
  __device__ int tiles() const { return (tokens() + kTile - 1) / kTile; }
  __device__ int positions() const { return cells.height * cells.width; }
  __device__ float scale() const { return 1.0F / square_root(static_cast<float>(d)); }
  // The end of the keys that the 64 queries from `query` on see, and the first query that sees the keys from `key` on.
  __device__ int end_of_keys(int query) const { return causal && query + kTile < tokens() ? query + kTile : tokens(); }
  __device__ int first_query(int key) const { return causal ? key : 0; }
  __device__ int terms_from(int token) const { return tokens() - token < kTile ? tokens() - token : kTile; }
};

// The tokens of a tile, in shared memory.
struct TileTokens {
  int position[kTile];  // in the sequence; -1 if the token does not exist
  int region[kTile];    // WindowCells::region, or `absent`
  int place[kTile];     // the offset of a key from a query is the difference of their places and a constant

  // Sets the tokens of a window from `first` on, in the first 64 threads. A barrier must follow.
  __device__ void set(const Shape& s, int window, int first, int absent) {
    if (threadIdx.x < kTile) {
      const int token = first + static_cast<int>(threadIdx.x);
      const bool exists = token < s.tokens();
      position[threadIdx.x] = exists ? s.cells.position(window, token) : -1;
      region[threadIdx.x] = exists ? s.cells.region(window, token) : absent;
      place[threadIdx.x] = s.cells.offset(0, token) - s.cells.offset(0, 0);
    }
  }
};

// The rows of q, k, v or of the gradient of o, as an operand: rows are the tokens of a tile, columns are those of a
// head.
template <typename T>
struct TokenRows {
  const int* position;
  const T* tensor;
  const T* first;
  int64_t stride;
  int d;

  using Row = const T*;
  using Column = int64_t;
  __device__ Row row(int64_t i) const { return position[i] >= 0 ? first + position[i] * stride : nullptr; }
  __device__ Column column(int64_t i) const { return i < d ? i : -1; }
  __device__ const T* at(Row row, Column column) const {
    return row != nullptr && column >= 0 ? row + column : nullptr;
  }
  __device__ bool has_chunks(int chunk) const { return d % chunk == 0 && stride % chunk == 0 && is_aligned_16(first); }
  __device__ const T* any() const { return first; }
};

// One head of one window of a sample. q, k and v are the parts 0, 1 and 2 of [q k v]; o and its gradient have one part.
struct Head {
  const Shape& s;
  int unit;  // index of sample, window and head
  int head, window, sample;

  __device__ Head(const Shape& shape, int index)
      : s(shape),
        unit(index),
        head(index % shape.heads),
        window(index / shape.heads % shape.cells.count()),
        sample(index / shape.heads / shape.cells.count()) {}
  __device__ int64_t stride(int parts) const { return static_cast<int64_t>(parts) * s.heads * s.d; }
  __device__ int64_t start(int parts, int part) const {
    return static_cast<int64_t>(sample) * s.positions() * stride(parts) +
           (static_cast<int64_t>(part) * s.heads + head) * s.d;
  }
  template <typename T>
  __device__ TokenRows<T> rows(const TileTokens& tokens, const T* of, int parts, int part) const {
    return {tokens.position, of, of + start(parts, part), stride(parts), s.d};
  }
  // Writes the sums of a tile to rows of tokens, for the columns from `column` on.
  template <class Tile, typename T>
  __device__ void write(const TileTokens& tokens, Tile& sums, T* to, int parts, int part, int column) const {
    for_each_sum(sums, [&](int r, int c, float sum) {
      if (tokens.position[r] >= 0 && column + c < s.d) {
        assign(to[start(parts, part) + tokens.position[r] * stride(parts) + column + c], sum);
      }
    });
  }
};

// The left factor of a product in shared memory, and a number that each thread keeps for each of its sums. A product of
// two operands may overwrite the left factor, but not what is kept.
template <class Tile, bool kTermsInRows>
struct LeftFactor {
  Stages<Tile> stages;
  typename Tile::template Left<kTermsInRows> factor;
  __device__ auto& left() { return factor; }
  __device__ float& kept(int r, int c) { return *factor.at(Tile::row(r), Tile::column(c)); }
};
template <bool kTermsInRows>
struct LeftFactor<TileBf16, kTermsInRows> {
  using Left = TileBf16::Left<kTermsInRows>;
  Stages<TileBf16> stages;
  float numbers[TileBf16::kRows * TileBf16::kColumns][TileBf16::kThreads];
  static_assert(sizeof(Left) <= sizeof(stages.a));
  __device__ auto& left() { return reinterpret_cast<Left&>(stages.a); }
  __device__ float& kept(int r, int c) { return numbers[r * TileBf16::kColumns + c][threadIdx.x]; }
};

// Shared memory of a block. kTermsInRows: the terms of the left factor are its rows, which are queries.
template <class Tile, bool kTermsInRows>
struct Memory : LeftFactor<Tile, kTermsInRows> {
  TileTokens queries, keys;
  float parts[kTile][Tile::kParts + 1];
  // Numbers of queries: the largest score, 1 over the sum of its weights, and the sum of P times the gradient of P.
  float top[kTile], inverse[kTile], along[kTile];
};

// The larger number; NaN if one of both is NaN.
__device__ inline float larger(float best, float x) { return x <= best || best != best ? best : x; }

__device__ inline float weight_of(float score, float top) { return score == -INFINITY ? 0.0F : exp_lanes(score - top); }

// Adds value(r, c) of all threads to a number of each row. A barrier must precede, and one must follow before other
// threads than the first 64 read the numbers, and before the next call.
template <class Tile, class M, class Value>
__device__ void add_to_rows(M& memory, float (&sums)[kTile], const Value& value) {
  float own[Tile::kRows] = {};
  for_own<Tile>([&](int r, int c) { own[r] += value(r, c); });
  for (int r = 0; r < Tile::kRows; ++r) {
    memory.parts[Tile::row(r)][Tile::part()] = own[r];
  }
  __syncthreads();
  if (threadIdx.x < kTile) {
    for (int p = 0; p < Tile::kParts; ++p) {
      sums[threadIdx.x] += memory.parts[threadIdx.x][p];
    }
  }
}

}  // namespace xrun::ops
