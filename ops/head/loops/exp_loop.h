// The exponential function of head passes. Included inside an unnamed namespace (kernels_impl.h says why).

template <typename V>
typename V::F exp_of(typename V::F x) {
  // Cody and Waite's reduction to |r| <= log(2)/2, then Cephes' polynomial of expf. Below 2^-126: 0. NaN stays NaN.
  // Error below 1.5 units in the last place (tests/ops/head/head_kernels_test.cpp).
  const auto y = V::min(V::broadcast(88.37F), V::max(V::broadcast(-87.33F), x));
  const auto n = V::round(V::mul(y, V::broadcast(1.44269504088896341F)));
  auto r = V::fma(n, V::broadcast(-0.693359375F), y);
  r = V::fma(n, V::broadcast(2.12194440e-4F), r);
  auto p = V::broadcast(1.9875691500e-4F);
  p = V::fma(p, r, V::broadcast(1.3981999507e-3F));
  p = V::fma(p, r, V::broadcast(8.3334519073e-3F));
  p = V::fma(p, r, V::broadcast(4.1665795894e-2F));
  p = V::fma(p, r, V::broadcast(1.6666665459e-1F));
  p = V::fma(p, r, V::broadcast(5.0000001201e-1F));
  p = V::add(V::fma(V::mul(p, r), r, r), V::broadcast(1.0F));
  return V::zero_where_less(x, V::broadcast(-87.33F), V::scale_by_power(p, n));
}
