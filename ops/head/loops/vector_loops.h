// Part of kernels_impl.h: sums, norms and projections of single vectors.

template <typename V>
void add(float* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; i += V::kWidth) {
    V::store(to + i, V::add(V::load(to + i), V::load(from + i)));
  }
}

template <typename V>
void stream(float* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; i += V::kWidth) {
    V::stream(to + i, V::load(from + i));
  }
}

// The dot product, in sixty-four running sums that are added in a fixed tree.
template <typename V>
float dot(const float* a, const float* b, int64_t n) {
  constexpr int kParts = 64 / V::kWidth;
  typename V::F sums[kParts];
  for (int i = 0; i < kParts; ++i) {
    sums[i] = V::broadcast(0.0F);
  }
  int64_t at = 0;
  for (; at + 64 <= n; at += 64) {
#pragma GCC unroll 8
    for (int i = 0; i < kParts; ++i) {
      const int64_t place = at + i * V::kWidth;
      sums[i] = V::fma(V::load(a + place), V::load(b + place), sums[i]);
    }
  }
  for (int i = 0; i < kParts && at + i * V::kWidth < n; ++i) {
    const int64_t place = at + i * V::kWidth;
    sums[i] = V::fma(V::load_upto(a + place, n - place), V::load_upto(b + place, n - place), sums[i]);
  }
  for (int width = kParts / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      sums[i] = V::add(sums[i], sums[i + width]);
    }
  }
  float lanes[V::kWidth];
  V::store(lanes, sums[0]);
  for (int width = V::kWidth / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      lanes[i] += lanes[i + width];
    }
  }
  return lanes[0];
}

template <typename V>
float inverse_norm(const float* w, int64_t dim) {
  const float squares = dot<V>(w, w, dim);
  if (squares == __builtin_inff()) {  // the squares of numbers above 1e19 overflow f32
    double sum = 0;
    for (int64_t i = 0; i < dim; ++i) {
      sum += static_cast<double>(w[i]) * static_cast<double>(w[i]);
    }
    return static_cast<float>(1 / __builtin_sqrt(sum));
  }
  const float norm = __builtin_sqrtf(squares);
  return 1.0F / (norm < kHeadEpsilon ? kHeadEpsilon : norm);
}

template <typename V>
void project(float* g, const float* w, float inverse, int64_t dim) {
  // Below the smallest norm the weight is divided by a constant, so no component along it is removed.
  const float along = inverse >= 1.0F / kHeadEpsilon ? 0.0F : dot<V>(g, w, dim) * inverse * inverse;
  for (int64_t i = 0; i < dim; i += V::kWidth) {
    const auto rest = V::fma(V::load_upto(w + i, dim - i), V::broadcast(-along), V::load_upto(g + i, dim - i));
    V::store(g + i, V::mul(rest, V::broadcast(inverse)));  // the tile's rows are padded
  }
}
