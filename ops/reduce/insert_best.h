// The best classes of a row. Included inside an unnamed namespace (kernels_impl.h says why), and by kernels of GPUs,
// for which the function is constexpr.

// Inserts a class into the list of the k best classes, best first, if its value is large enough. Classes are offered in
// ascending order, so a class is placed after equal values. Successive entries of the list are `plane` elements apart.
constexpr void insert_best(float* values, int32_t* classes, int64_t plane, int64_t k, float value, int32_t which) {
  int64_t at = (k - 1) * plane;
  if (!(value > values[at])) {
    return;
  }
  for (; at > 0 && value > values[at - plane]; at -= plane) {
    values[at] = values[at - plane];
    classes[at] = classes[at - plane];
  }
  values[at] = value;
  classes[at] = which;
}
