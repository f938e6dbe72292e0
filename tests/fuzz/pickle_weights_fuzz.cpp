// Fuzzes pickles of weights, of PaddlePaddle and of PyTorch before 1.6: any bytes give tensors that can be read, or an
// error.
#include "runtime/interchange/weights/pickle_file.h"
#include "tests/fuzz/weights_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  xrun::test::check_weights(xrun::runtime::open_pickle_of_weights(xrun::test::file_of_input(data, size), nullptr));
  return 0;
}
