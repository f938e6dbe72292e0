// The inside of self-attention (ops/attention/attention.cpp), for each head of d numbers of each window of a sample:
//   attention        o = P v, where P = softmax(q k^T / sqrt(d) + bias)
//   attention_dq, attention_dkv            dq, then dk and dv, from q, k, v and the gradient of o
//   attention_pairs, attention_relative    the gradient of the trained bias
// A block of threads has a tile of 64 queries or keys. It goes over the tiles of 64 keys or queries in ascending order
// and computes the scores of a tile whenever it needs them, so no matrix of scores exists in memory. The softmax takes
// two passes: the first one keeps the largest score of a row and its sum, which is rescaled when that score grows.
// Products are summed like those of product_f32.cu and product_bf16.cu; for bf16, P and the gradients of scores are
// rounded before they are factors. No bit depends on the number of samples in a launch.
//
// qkv [samples, positions, 3, heads, d]; o [samples, positions, heads, d]; relative [heads, offsets] or null. Windows
// and offsets of keys from queries are those of ops/attention/window_cells.h.
#include "ops/gpu/attention_tiles.h"
#include "ops/gpu/grid.h"

using namespace xrun::ops;

namespace xrun::ops {

// The scores of a tile; -infinity where a query does not see a key.
template <class Tile, typename T, class M>
__device__ Tile scores_of(M& memory, const Head& at, const T* qkv, const float* relative, int query, int key) {
  const Shape& s = at.s;
  Tile scores = {};
  add_product<false, false>(scores, memory.stages, at.rows(memory.queries, qkv, 3, 0), 0,
                            at.rows(memory.keys, qkv, 3, 1), 0, 0, s.d);
  const float* const bias = relative + at.head * s.cells.offsets() + s.cells.offset(0, 0);
  for_each_sum(scores, [&](int r, int c, float& score) {
    const bool seen = memory.queries.region[r] == memory.keys.region[c] && (!s.causal || key + c <= query + r);
    score *= s.scale();
    if (seen && relative != nullptr) {
      score += bias[memory.keys.place[c] - memory.queries.place[r]];
    }
    score = seen ? score : -INFINITY;
  });
  return scores;
}

// The numbers of the queries before the first tile of keys, in the first 64 threads.
template <class M>
__device__ void begin_rows(M& memory) {
  if (threadIdx.x < kTile) {
    memory.top[threadIdx.x] = -INFINITY;
    memory.inverse[threadIdx.x] = 0;
    memory.along[threadIdx.x] = 0;
  }
}

// Adds the weights of a tile to their sums, which are in `inverse` until the last tile.
template <class Tile, class M>
__device__ void add_weights(M& memory, Tile& scores) {
  for (int r = 0; r < Tile::kRows; ++r) {
    float best = scores.at(r, 0);
    for (int c = 1; c < Tile::kColumns; ++c) {
      best = larger(best, scores.at(r, c));
    }
    memory.parts[Tile::row(r)][Tile::part()] = best;
  }
  __syncthreads();
  if (threadIdx.x < kTile) {
    const float before = memory.top[threadIdx.x];
    float top = before;
    for (int p = 0; p < Tile::kParts; ++p) {
      top = larger(top, memory.parts[threadIdx.x][p]);
    }
    memory.inverse[threadIdx.x] *= top == before ? 1.0F : exp_lanes(before - top);
    memory.top[threadIdx.x] = top;
  }
  __syncthreads();
  add_to_rows<Tile>(memory, memory.inverse,
                    [&](int r, int c) { return weight_of(scores.at(r, c), memory.top[Tile::row(r)]); });
}

// Ends the sums after the last tile. Weights of queries that do not exist become 0.
template <class M>
__device__ void end_weights(M& memory) {
  if (threadIdx.x < kTile) {
    float& inverse = memory.inverse[threadIdx.x];
    inverse = memory.queries.position[threadIdx.x] >= 0 ? 1.0F / inverse : 0.0F;
  }
}

// P of a tile, from its scores.
template <class Tile, class M>
__device__ void set_weights(M& memory, Tile& scores) {
  for_each_sum(scores, [&](int r, int, float& s) { s = weight_of(s, memory.top[r]) * memory.inverse[r]; });
}

// The gradient of P of a tile. P moves to kept().
template <class Tile, typename T, class M>
__device__ Tile weight_gradients_of(M& memory, const Head& at, const T* qkv, const T* d_o, Tile& weights) {
  for_own<Tile>([&](int r, int c) { memory.kept(r, c) = weights.at(r, c); });
  Tile gradients = {};
  add_product<false, false>(gradients, memory.stages, at.rows(memory.queries, d_o, 1, 0), 0,
                            at.rows(memory.keys, qkv, 3, 2), 0, 0, at.s.d);
  return gradients;
}

// The gradients of scores before they are scaled, P (dP - <P, dP>), from those of P.
template <class Tile, class M>
__device__ void set_score_gradients(M& memory, Tile& gradients) {
  for_own<Tile>([&](int r, int c) {
    gradients.at(r, c) = memory.kept(r, c) * (gradients.at(r, c) - memory.along[Tile::row(r)]);
  });
}

// Writes the left factor of a product.
template <class Tile, class M>
__device__ void set_left(M& memory, Tile& sums, float scale) {
  for_each_sum(sums, [&](int r, int c, float sum) { assign(*memory.left().at(r, c), sum * scale); });
}

template <class Tile, typename T>
__device__ void attention(const Shape& s, const T* qkv, const float* relative, T* o) {
  __shared__ Memory<Tile, false> memory;
  const Head at(s, static_cast<int>(blockIdx.x) / s.tiles());
  const int query = static_cast<int>(blockIdx.x) % s.tiles() * kTile;
  memory.queries.set(s, at.window, query, -2);
  begin_rows(memory);
#pragma unroll 1
  for (int column = -kTile; column < s.d; column += kTile) {  // first the sums of weights, then the columns of o
    Tile sums = {};
#pragma unroll 1
    for (int key = 0; key < s.end_of_keys(query); key += kTile) {
      memory.keys.set(s, at.window, key, -1);
      __syncthreads();
      Tile scores = scores_of<Tile>(memory, at, qkv, relative, query, key);
      if (column < 0) {
        add_weights(memory, scores);
        continue;
      }
      set_weights(memory, scores);
      set_left(memory, scores, 1.0F);
      add_left_product<false>(sums, memory.stages, memory.left(), at.rows(memory.keys, qkv, 3, 2), column,
                              s.terms_from(key));
    }
    if (column >= 0) {
      at.write(memory.queries, sums, o, 1, 0, column);
    } else {
      end_weights(memory);
    }
  }
}

template <class Tile, typename T>
__device__ void query_gradients(const Shape& s, const T* qkv, const T* d_o, const float* relative, T* dqkv,
                                float* stats) {
  __shared__ Memory<Tile, false> memory;
  const Head at(s, static_cast<int>(blockIdx.x) / s.tiles());
  const int query = static_cast<int>(blockIdx.x) % s.tiles() * kTile;
  memory.queries.set(s, at.window, query, -2);
  begin_rows(memory);
#pragma unroll 1
  for (int column = -2 * kTile; column < s.d; column += kTile) {  // the sums of weights, <P, dP>, the columns of dq
    Tile sums = {};
#pragma unroll 1
    for (int key = 0; key < s.end_of_keys(query); key += kTile) {
      memory.keys.set(s, at.window, key, -1);
      __syncthreads();
      Tile scores = scores_of<Tile>(memory, at, qkv, relative, query, key);
      if (column < -kTile) {
        add_weights(memory, scores);
        continue;
      }
      set_weights(memory, scores);
      Tile gradients = weight_gradients_of<Tile>(memory, at, qkv, d_o, scores);
      if (column < 0) {
        add_to_rows<Tile>(memory, memory.along, [&](int r, int c) { return memory.kept(r, c) * gradients.at(r, c); });
        continue;
      }
      set_score_gradients(memory, gradients);
      set_left(memory, gradients, s.scale());
      add_left_product<false>(sums, memory.stages, memory.left(), at.rows(memory.keys, qkv, 3, 1), column,
                              s.terms_from(key));
    }
    if (column >= 0) {
      at.write(memory.queries, sums, dqkv, 3, 0, column);
    } else if (column < -kTile) {
      end_weights(memory);
    } else if (threadIdx.x < kTile) {
      float* const to = stats + (static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x) * 3;
      to[0] = memory.top[threadIdx.x];
      to[1] = memory.inverse[threadIdx.x];
      to[2] = memory.along[threadIdx.x];
    }
  }
}

// Reads the numbers of the queries from `query` on, which query_gradients wrote. A barrier must follow.
template <class M>
__device__ void read_stats(M& memory, const Shape& s, const float* stats, int unit, int query) {
  if (threadIdx.x < kTile) {
    const float* const from = stats + (static_cast<int64_t>(unit) * s.tiles() * kTile + query + threadIdx.x) * 3;
    memory.top[threadIdx.x] = from[0];
    memory.inverse[threadIdx.x] = from[1];
    memory.along[threadIdx.x] = from[2];
  }
}

template <class Tile, typename T>
__device__ void key_gradients(const Shape& s, const T* qkv, const T* d_o, const float* relative, T* dqkv,
                              const float* stats) {
  __shared__ Memory<Tile, true> memory;
  const Head at(s, static_cast<int>(blockIdx.x) / s.tiles());
  const int key = static_cast<int>(blockIdx.x) % s.tiles() * kTile;
  memory.keys.set(s, at.window, key, -1);
  const int across = (s.d + kTile - 1) / kTile;
#pragma unroll 1
  for (int i = 0; i < 2 * across; ++i) {  // first the columns of dk, then those of dv
    const bool is_k = i < across;
    const int column = (is_k ? i : i - across) * kTile;
    Tile sums = {};
#pragma unroll 1
    for (int query = s.first_query(key); query < s.tokens(); query += kTile) {
      memory.queries.set(s, at.window, query, -2);
      read_stats(memory, s, stats, at.unit, query);
      __syncthreads();
      Tile weights = scores_of<Tile>(memory, at, qkv, relative, query, key);
      set_weights(memory, weights);
      if (is_k) {
        weights = weight_gradients_of<Tile>(memory, at, qkv, d_o, weights);
        set_score_gradients(memory, weights);
      }
      set_left(memory, weights, is_k ? s.scale() : 1.0F);
      const auto factor = is_k ? at.rows(memory.queries, qkv, 3, 0) : at.rows(memory.queries, d_o, 1, 0);
      add_left_product<true>(sums, memory.stages, memory.left(), factor, column, s.terms_from(query));
    }
    at.write(memory.keys, sums, dqkv, 3, is_k ? 1 : 2, column);
  }
}

// The sums of the gradients of scores over a row block of `rows` samples and its windows, each by one thread.
template <class Tile, typename T>
__device__ void pair_sums(const Shape& s, const T* qkv, const T* d_o, const float* relative, const float* stats,
                          double* pairs, int samples, int rows) {
  __shared__ Memory<Tile, false> memory;
  const auto tiles = static_cast<uint32_t>(s.tiles());
  const int query = static_cast<int>(blockIdx.x / tiles % tiles) * kTile;
  const int key = static_cast<int>(blockIdx.x % tiles) * kTile;
  const int table = static_cast<int>(blockIdx.x / tiles / tiles), units = s.cells.count() * s.heads;
  const int first = table / s.heads * rows, last = first + rows < samples ? first + rows : samples;
#pragma unroll 1
  for (int unit = first * units + table % s.heads; unit < last * units; unit += s.heads) {
    const Head at(s, unit);
    memory.queries.set(s, at.window, query, -2);
    memory.keys.set(s, at.window, key, -1);
    read_stats(memory, s, stats, unit, query);
    __syncthreads();
    Tile gradients = scores_of<Tile>(memory, at, qkv, relative, query, key);
    set_weights(memory, gradients);
    gradients = weight_gradients_of<Tile>(memory, at, qkv, d_o, gradients);
    set_score_gradients(memory, gradients);
    for_own<Tile>([&](int r, int c) { memory.kept(r, c) = gradients.at(r, c); });
#pragma unroll 1
    for (int i = 0; i < Tile::kRows * Tile::kColumns; ++i) {
      const int r = i / Tile::kColumns, c = i % Tile::kColumns, row = Tile::row(r), column = Tile::column(c);
      if (memory.queries.position[row] >= 0 && memory.keys.position[column] >= 0) {
        double& pair = pairs[(static_cast<int64_t>(table) * s.tokens() + query + row) * s.tokens() + key + column];
        pair = static_cast<double>(memory.kept(r, c)) + (unit < first * units + s.heads ? 0.0 : pair);
      }
    }
    __syncthreads();
  }
}

}  // namespace xrun::ops

// One block for each 64 queries of each head, window and sample; the sample varies last, then the window.
extern "C" __global__ void __launch_bounds__(TileF32::kThreads, 2)
    attention_f32(const float* qkv, const float* relative, float* o, int32_t heads, int32_t d, int32_t height,
                  int32_t width, int32_t rows, int32_t columns, int32_t down, int32_t right, int32_t causal) {
  attention<TileF32>(Shape{heads, d, height, width, rows, columns, down, right, causal != 0}, qkv, relative, o);
}
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    attention_bf16(const Bf16* qkv, const float* relative, Bf16* o, int32_t heads, int32_t d, int32_t height,
                   int32_t width, int32_t rows, int32_t columns, int32_t down, int32_t right, int32_t causal) {
  attention<TileBf16>(Shape{heads, d, height, width, rows, columns, down, right, causal != 0}, qkv, relative, o);
}

// Likewise. Writes dq, and three numbers of each query to `stats` [samples, windows, heads, tiles, 64, 3].
extern "C" __global__ void __launch_bounds__(TileF32::kThreads, 2)
    attention_dq_f32(const float* qkv, const float* d_o, const float* relative, float* dqkv, float* stats,
                     int32_t heads, int32_t d, int32_t height, int32_t width, int32_t rows, int32_t columns,
                     int32_t down, int32_t right, int32_t causal) {
  query_gradients<TileF32>(Shape{heads, d, height, width, rows, columns, down, right, causal != 0}, qkv, d_o, relative,
                           dqkv, stats);
}
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    attention_dq_bf16(const Bf16* qkv, const Bf16* d_o, const float* relative, Bf16* dqkv, float* stats, int32_t heads,
                      int32_t d, int32_t height, int32_t width, int32_t rows, int32_t columns, int32_t down,
                      int32_t right, int32_t causal) {
  query_gradients<TileBf16>(Shape{heads, d, height, width, rows, columns, down, right, causal != 0}, qkv, d_o, relative,
                            dqkv, stats);
}

// Likewise, by tiles of 64 keys. Reads what attention_dq wrote; writes dk and dv.
extern "C" __global__ void __launch_bounds__(TileF32::kThreads, 2)
    attention_dkv_f32(const float* qkv, const float* d_o, const float* relative, float* dqkv, const float* stats,
                      int32_t heads, int32_t d, int32_t height, int32_t width, int32_t rows, int32_t columns,
                      int32_t down, int32_t right, int32_t causal) {
  key_gradients<TileF32>(Shape{heads, d, height, width, rows, columns, down, right, causal != 0}, qkv, d_o, relative,
                         dqkv, stats);
}
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    attention_dkv_bf16(const Bf16* qkv, const Bf16* d_o, const float* relative, Bf16* dqkv, const float* stats,
                       int32_t heads, int32_t d, int32_t height, int32_t width, int32_t rows, int32_t columns,
                       int32_t down, int32_t right, int32_t causal) {
  key_gradients<TileBf16>(Shape{heads, d, height, width, rows, columns, down, right, causal != 0}, qkv, d_o, relative,
                          dqkv, stats);
}

// Reads what attention_dq wrote; writes the sums of the gradients of scores, over each row block of `block_rows`
// samples, to `pairs` [row blocks, heads, queries, keys]. As many blocks as row blocks times heads times tiles of
// queries and of keys.
extern "C" __global__ void __launch_bounds__(TileF32::kThreads, 2)
    attention_pairs_f32(const float* qkv, const float* d_o, const float* relative, const float* stats, double* pairs,
                        int32_t heads, int32_t d, int32_t height, int32_t width, int32_t rows, int32_t columns,
                        int32_t down, int32_t right, int32_t causal, int32_t samples, int32_t block_rows) {
  pair_sums<TileF32>(Shape{heads, d, height, width, rows, columns, down, right, causal != 0}, qkv, d_o, relative, stats,
                     pairs, samples, block_rows);
}
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    attention_pairs_bf16(const Bf16* qkv, const Bf16* d_o, const float* relative, const float* stats, double* pairs,
                         int32_t heads, int32_t d, int32_t height, int32_t width, int32_t rows, int32_t columns,
                         int32_t down, int32_t right, int32_t causal, int32_t samples, int32_t block_rows) {
  pair_sums<TileBf16>(Shape{heads, d, height, width, rows, columns, down, right, causal != 0}, qkv, d_o, relative,
                      stats, pairs, samples, block_rows);
}

// Adds the gradient of the trained bias, from the sums of attention_pairs_T, one thread for each head and offset. The
// sum of a row block has the queries in ascending order; row blocks are added in ascending order.
extern "C" __global__ void attention_relative(const double* pairs, float* drelative, int64_t blocks, int32_t heads,
                                              int32_t rows, int32_t columns) {
  const WindowCells<int> cells{rows, columns, rows, columns};
  const int64_t i = thread_index(), tokens = cells.tokens();
  const int offset = static_cast<int>(i % cells.offsets());
  const int down = offset / (2 * columns - 1) - (rows - 1), right = offset % (2 * columns - 1) - (columns - 1);
  for (int64_t block = 0; block < blocks && i < static_cast<int64_t>(heads) * cells.offsets(); ++block) {
    const double* const table = pairs + (block * heads + i / cells.offsets()) * tokens * tokens;
    double total = 0;
    for (int query = 0; query < tokens; ++query) {
      const int row = query / columns + down, column = query % columns + right;
      if (row >= 0 && row < rows && column >= 0 && column < columns) {
        total += table[query * tokens + row * columns + column];
      }
    }
    drelative[i] += static_cast<float>(total);
  }
}
