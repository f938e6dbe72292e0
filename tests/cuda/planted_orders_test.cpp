// Programs in which the order of two streams, or of a stream and the host, is missing. Each missing order is reported
// with its place, with every seed: the calls, their streams, and the buffer.
#include "tests/cuda/planted.h"

namespace xrun::cuda {
namespace {

using fake::FaultKind;

struct PlantedOrder {
  const char* name;
  Defect defect;
  FaultKind kind;
  std::vector<std::string> parts;  // parts of the line of the fault
};

std::vector<PlantedOrder> planted_orders() {
  constexpr auto kUnordered = FaultKind::kUnordered;
  const std::string kernel = "`add`";
  return {
      {"the kernel does not wait for its input",
       Defect::kNoWaitForInput,
       kUnordered,
       {"input 0 + 0", kernel, "cuMemcpyHtoDAsync_v2", "in inputs", "in compute"}},
      {"an input is overwritten while the kernel may read it",
       Defect::kNoWaitBeforeInputIsOverwritten,
       kUnordered,
       {"input 0 + 0", kernel, "cuMemcpyHtoDAsync_v2", "in inputs", "in compute"}},
      {"the copy does not wait for the result",
       Defect::kNoWaitForResult,
       kUnordered,
       {"out + 0", kernel, "cuMemcpyDtoHAsync_v2", "in outputs", "in compute"}},
      {"a result is overwritten while it may be copied",
       Defect::kNoWaitBeforeResultIsOverwritten,
       kUnordered,
       {"out + 0", kernel, "cuMemcpyDtoHAsync_v2", "in outputs", "in compute"}},
      {"an event is recorded before the copy",
       Defect::kRecordBeforeCopy,
       kUnordered,
       {"input 0 + 0", kernel, "cuMemcpyHtoDAsync_v2", "in inputs", "in compute"}},
      {"an event is recorded before the kernel",
       Defect::kRecordBeforeKernel,
       kUnordered,
       {"out + 0", kernel, "cuMemcpyDtoHAsync_v2", "in outputs", "in compute"}},
      {"an event is recorded before the copy of the result",
       Defect::kRecordBeforeCopyOut,
       kUnordered,
       {"out + 0", kernel, "cuMemcpyDtoHAsync_v2", "in outputs", "in compute"}},
      {"an event is waited for before it is recorded",
       Defect::kWaitBeforeRecord,
       kUnordered,
       {"input 0 + 0", kernel, "cuMemcpyHtoDAsync_v2", "in inputs", "in compute"}},
      {"the event of the other slot is waited for",
       Defect::kWrongEvent,
       kUnordered,
       {"input 0 + 0", kernel, "in inputs", "in compute"}},
      {"the kernel is launched in another stream",
       Defect::kKernelInWrongStream,
       kUnordered,
       {"out + 0", kernel, "in inputs", "in outputs"}},
      {"two streams write a buffer",
       Defect::kTwoWriters,
       kUnordered,
       {"out + 0", "cuMemsetD8Async", kernel, "in inputs", "in compute"}},
      {"the host overwrites a batch that is being copied",
       Defect::kHostOverwritesBatch,
       FaultKind::kHostAccess,
       {"the host, batch 0 + ", "the host has not waited for cuMemcpyHtoDAsync_v2 in inputs"}},
  };
}

TEST(PlantedOrders, MissingOrdersAreFoundWithEverySeed) {
  for (const PlantedOrder& planted : planted_orders()) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      SCOPED_TRACE(std::string(planted.name) + ", seed " + std::to_string(seed));
      Program at({.seed = seed});
      run_program(at, planted.defect);
      expect_fault(at.finish(), planted.kind, planted.parts);
    }
  }
}

TEST(PlantedOrders, AccessesOfTheHostAreFound) {
  run_planted({
      {"the host reads a result without waiting",
       FaultKind::kHostAccess,
       {"result 3 + ", "the host has not waited for cuMemcpyDtoHAsync_v2 in outputs"},
       [](Program& at) {
         run_program(at, Defect::kHostReadsResult);
         Program::values_of(*at.results[3]);
       }},
      {"the host waits for another event",
       FaultKind::kHostAccess,
       {"result 3 + ", "the host has not waited for cuMemcpyDtoHAsync_v2 in outputs"},
       [](Program& at) {
         run_program(at, Defect::kHostReadsResult);
         at.note(at.computed[1]->synchronise());
         Program::values_of(*at.results[3]);
       }},
      {"the host takes a query for a wait",
       FaultKind::kHostAccess,
       {"result 3 + ", "the host has not waited for cuMemcpyDtoHAsync_v2 in outputs"},
       [](Program& at) {
         run_program(at, Defect::kHostReadsResult);
         EXPECT_FALSE(must(at.outputs->ended()));
         Program::values_of(*at.results[3]);
       }},
      {"a synchronous copy reads what a kernel may write",
       FaultKind::kUnordered,
       {"out + 0", "cuMemcpyDtoH_v2", "`add`"},
       [](Program& at) {
         at.launch_add(*at.compute, at.weights->address());
         std::vector<float> values(kCount);
         at.note(at.out->read(0, std::as_writable_bytes(std::span(values))));
       }},
      {"a synchronous copy writes what a kernel may read",
       FaultKind::kUnordered,
       {"weights + 0", "cuMemcpyHtoD_v2", "`add`"},
       [](Program& at) {
         at.launch_add(*at.compute, at.weights->address());
         const std::vector<float> values = floats(kCount, 0);
         at.note(at.weights->write(0, std::as_bytes(std::span(values))));
       }},
      {"a synchronous copy from pageable memory is not waited for",
       FaultKind::kUnordered,
       {"compute", "a copy from pageable memory may not have ended"},
       [](Program& at) {
         const std::vector<float> values = floats(kCount, 0);
         const auto bytes = static_cast<size_t>(kBytes);
         EXPECT_EQ(at.driver.table().cuMemcpyHtoD_v2(at.weights->address(), values.data(), bytes), CUDA_SUCCESS);
         at.launch_add(*at.compute, at.weights->address());
         at.note(at.compute->synchronise());
       }},
      {"an asynchronous copy from pageable memory",
       FaultKind::kPageable,
       {"cuMemcpyHtoDAsync_v2 in inputs, input 0 + 0", "256 bytes of the host are not page-locked"},
       [](Program& at) {
         const std::vector<float> values = floats(kCount, 0);
         at.note(at.inputs->copy_in(at.input[0]->address(), std::as_bytes(std::span(values))));
         at.note(at.inputs->synchronise());
       }},
      {"an asynchronous copy to pageable memory",
       FaultKind::kPageable,
       {"cuMemcpyDtoHAsync_v2 in outputs, weights + 0"},
       [](Program& at) {
         std::vector<float> values(kCount);
         at.note(at.outputs->copy_out(std::as_writable_bytes(std::span(values)), at.weights->address()));
         at.note(at.outputs->synchronise());
       }},
      {"a copy beyond page-locked memory",
       FaultKind::kPageable,
       {"cuMemcpyDtoHAsync_v2 in outputs, weights + 0"},
       [](Program& at) {
         const auto half = must(PinnedMemory::allocate(*at.context, kBytes / 2));
         const std::span<std::byte> beyond(half->bytes().data(), static_cast<size_t>(kBytes));
         at.note(at.outputs->copy_out(beyond, at.weights->address()));
         at.note(at.outputs->synchronise());
       }},
  });
}

TEST(PlantedOrders, TheHostDoesNotAccessTheMemoryOfAGpu) {
  if (Program at; !at.driver.finds_host_access()) {
    at.finish();
    GTEST_SKIP() << "sanitizers use the addresses of the memory of GPUs";
  }
  run_planted({
      {"the host reads memory of a GPU",
       FaultKind::kHostAccess,
       {"the host, weights + 8: only kernels and copies access memory of a GPU"},
       [](Program& at) { static_cast<void>(*reinterpret_cast<volatile float*>(at.weights->address() + 8)); }},
      {"the host writes memory of a GPU",
       FaultKind::kHostAccess,
       {"the host, out + 0: only kernels and copies access memory of a GPU"},
       [](Program& at) { *reinterpret_cast<volatile float*>(at.out->address()) = 1; }},
  });
}

}  // namespace
}  // namespace xrun::cuda
