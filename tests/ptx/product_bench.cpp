// Time of the PTX machine for one tile of a product, with all checks: nanoseconds for an instruction of a thread.
#include <benchmark/benchmark.h>

#include "tests/ptx/kernels.h"

namespace xrun::ptx {
namespace {

void BM_Product(benchmark::State& state) {
  const auto module = module_of(golden_text("product"));
  const auto order = static_cast<Order>(state.range(0));
  uint64_t instructions = 0;
  for (auto _ : state) {
    Memory memory;
    Launch launch{.threads = {128, 1, 1}};
    launch.arguments = {add(memory, "a", std::vector<uint16_t>(64 * 128, 0x3f81)),
                        add(memory, "b", std::vector<uint16_t>(128 * 128, 0xbf03)), memory.add("out", 64 * 128 * 4)};
    const Execution done = execute(*module, "product", launch, memory, {.order = order});
    if (done.fault) {
      state.SkipWithError(done.fault->print().c_str());
    }
    instructions += done.thread_instructions;
  }
  state.counters["ns_per_thread_instruction"] = benchmark::Counter(
      static_cast<double>(instructions) * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["thread_instructions"] = static_cast<double>(instructions) / static_cast<double>(state.iterations());
}
BENCHMARK(BM_Product)->DenseRange(0, 5)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace xrun::ptx
