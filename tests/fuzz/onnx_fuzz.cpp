// Fuzzes ONNX files: any bytes give constants that can be read, or an error. The module xrun_onnx.so has to be next to
// the program.
#include "runtime/interchange/weights/onnx_weights.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/weights_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using xrun::runtime::RandomFile;
  const xrun::test::MemoryFile input(std::as_bytes(std::span(data, size)));
  auto file = RandomFile::open(input.path());
  XRUN_CHECK(file.ok(), "a file in memory can be opened");
  const auto opened =
      xrun::runtime::open_onnx_weights(std::make_shared<const RandomFile>(std::move(file).value()), nullptr);
  XRUN_CHECK(opened.ok() || opened.error().code != "XG0931", "the module is next to the program");
  xrun::test::check_weights(opened);
  return 0;
}
