// Products of a classifier head by tiles, for consecutive class blocks. Each element takes its terms in ascending
// order: dimensions for logits, the classes of one block for dX, rows for dW. So its bits depend neither on the number
// of rows, classes or class blocks of a launch, nor on where the row blocks of dW, which are padded to 32 places, are
// divided among launches. Tiles are numbered along x, so their number is limited by 2^31 only. Only nvcc reads this
// header.
#pragma once

#include "ops/gpu/tile_products.h"

namespace xrun::ops {

template <class Tile>
__device__ int64_t tiles_of(int64_t n) {
  return (n + Tile::kTile - 1) / Tile::kTile;
}

// The first row and the first column of tile `number` of a product with `columns` columns.
template <class Tile>
struct TilePlace {
  int64_t row, column;
  __device__ TilePlace(int64_t number, int64_t columns)
      : row(number / tiles_of<Tile>(columns) * Tile::kTile), column(number % tiles_of<Tile>(columns) * Tile::kTile) {}
};

// Calls visit(row, column, sum) for each sum of the thread that exists.
template <class Tile, class Visit>
__device__ void for_sums(Tile& sums, const TilePlace<Tile>& at, int64_t rows, int64_t columns, const Visit& visit) {
  for_own<Tile>([&](int r, int c) {
    const int64_t row = at.row + Tile::row(r), column = at.column + Tile::column(c);
    if (row < rows && column < columns) {
      visit(row, column, sums.at(r, c));
    }
  });
}

// Logits z [count, places] of the classes [count, dims] and the rows [places, dims], plus `bias` [count] unless it is
// null; clamped to -1 .. 1 if `clamp`. Grids of ceil(count / 64) * ceil(places / 64) blocks.
template <class Tile, typename T>
__device__ void head_logits(const T* classes, const T* rows, const float* bias, float* z, int64_t count, int64_t places,
                            int64_t dims, uint32_t clamp) {
  __shared__ Stages<Tile> stages;
  const TilePlace<Tile> at(blockIdx.x, places);
  Tile sums = {};
  add_product<false, false>(sums, stages, Matrix<T>{classes, count, dims, dims}, at.row,
                            Matrix<T>{rows, places, dims, dims}, at.column, int64_t{0}, dims);
  for_sums(sums, at, count, places, [&](int64_t c, int64_t place, float x) {
    x = bias == nullptr ? x : x + bias[c];
    z[c * places + place] = clamp == 0 ? x : x < -1.0F ? -1.0F : x > 1.0F ? 1.0F : x;
  });
}

// dX partials of class blocks of `size` classes: dx[b] [places, dims] = g^T * classes over the classes of block b, with
// `slot` numbers from one block's to the next one's. Grids of ceil(count / size) * ceil(places / 64) * ceil(dims / 64)
// blocks.
template <class Tile, typename T>
__device__ void head_dx(const T* g, const T* classes, float* dx, int64_t count, int64_t size, int64_t places,
                        int64_t dims, int64_t slot) {
  __shared__ Stages<Tile> stages;
  const int64_t tiles = tiles_of<Tile>(places) * tiles_of<Tile>(dims);
  const int64_t block = blockIdx.x / tiles, begin = block * size;
  const int64_t terms = count - begin < size ? count - begin : size;
  const TilePlace<Tile> at(blockIdx.x % tiles, dims);
  Tile sums = {};
  add_product<true, true>(sums, stages, Matrix<T>{g + begin * places, terms, places, places}, at.row,
                          Matrix<T>{classes + begin * dims, terms, dims, dims}, at.column, int64_t{0}, terms);
  for_sums(sums, at, places, dims,
           [&](int64_t place, int64_t d, float sum) { dx[block * slot + place * dims + d] = sum; });
}

// dW [count, dims] = g * rows over the first `terms` places, a multiple of 32, continued from dW if `add`. Grids of
// ceil(count / 64) * ceil(dims / 64) blocks.
template <class Tile, typename T>
__device__ void head_dw(const T* g, const T* rows, float* dw, int64_t count, int64_t places, int64_t terms,
                        int64_t dims, uint32_t add) {
  __shared__ Stages<Tile> stages;
  const TilePlace<Tile> at(blockIdx.x, dims);
  Tile sums = {};
  if (add != 0) {
    for_sums(sums, at, count, dims, [&](int64_t c, int64_t d, float& sum) { sum = dw[c * dims + d]; });
  }
  add_product<false, true>(sums, stages, Matrix<T>{g, count, terms, places}, at.row, Matrix<T>{rows, terms, dims, dims},
                           at.column, int64_t{0}, terms);
  for_sums(sums, at, count, dims, [&](int64_t c, int64_t d, float sum) { dw[c * dims + d] = sum; });
}

}  // namespace xrun::ops
