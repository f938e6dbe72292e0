// Fuzzes safetensors files of other writers: any bytes give tensors that can be read, or an error.
#include "runtime/interchange/weights/safetensors_weights.h"
#include "tests/fuzz/weights_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  xrun::test::check_weights(xrun::runtime::open_safetensors(xrun::test::file_of_input(data, size), nullptr));
  return 0;
}
