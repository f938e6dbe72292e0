// Fuzzes the PTX machine with arbitrary bytes: a text is refused with a line, or its kernels end, with or without a
// fault. Corpus: tests/golden/ptx.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "tests/support/ptx/launch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xrun::ptx;
  const auto module = load_module(std::string(reinterpret_cast<const char*>(data), size));
  if (!module.ok()) {
    if (!module.error().message.starts_with("PTX line ")) {
      std::abort();
    }
    return 0;
  }
  uint64_t bytes = 0;
  for (const Variable& variable : (*module)->variables) {
    bytes += variable.bytes;
  }
  if (bytes > uint64_t{1} << 20) {
    return 0;  // the record of each byte would take most of the time
  }
  for (const Kernel& kernel : (*module)->kernels) {
    Memory memory;
    const uint64_t address = memory.add("data", 256);
    const std::vector<uint64_t> pointers(32, address);
    memory.write(address, std::as_bytes(std::span(pointers)));
    Launch launch{.blocks = {2, 1, 1}, .threads = {40, 1, 1}, .dynamic_shared = 64};
    launch.arguments.assign(kernel.parameters.size(), address);
    if (kernel.exact_threads) {
      launch.threads = kernel.most_threads;
    }
    const Order order = kOrders[size % kOrders.size()];
    const Execution done = execute(**module, kernel.name, launch, memory, {.order = order, .most_instructions = 4000});
    if (done.fault && done.fault->print().empty()) {
      std::abort();
    }
  }
  return 0;
}
