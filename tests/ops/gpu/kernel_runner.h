// Runs kernels of ops/gpu on the PTX machine, and operators on the processor with the same operands.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ops/catalog.h"
#include "ops/gpu/kernel_texts.h"
#include "ops/op.h"
#include "ops/simd/simd.h"
#include "tests/ops/gpu/launch_checks.h"
#include "tests/support/golden.h"
#include "tests/support/ptx/launch.h"

namespace xrun::ops::gpu {

// The seed of random operands; each test prints it on failure.
inline constexpr uint64_t kSeed = 20261201;

// The GPUs on which each test runs: the PTX for compute_80 on the model of an A100, and that for compute_90 on that of
// an H100.
struct Target {
  int compute;
  ptx::Generation generation;
};
inline constexpr Target kTargets[] = {{80, ptx::Generation::kA100}, {90, ptx::Generation::kH100}};

// A parsed module of ops/gpu for one target; the running test fails if the machine does not accept it.
inline std::unique_ptr<const ptx::Module> module_of(std::string text) {
  auto module = ptx::load_module(std::move(text));
  if (!module.ok()) {
    ADD_FAILURE() << module.error().message << " " << module.error().help;
    return nullptr;
  }
  return std::move(module).value();
}

// Modules are parsed once for each test binary.
inline const ptx::Module& module_of(int compute, const std::string& name) {
  static std::map<std::string, std::unique_ptr<const ptx::Module>> parsed;
  const std::string key = "compute_" + std::to_string(compute) + "/" + name;
  auto& module = parsed[key];
  if (module == nullptr) {
    module = module_of(std::string(kernel_text(compute, name)));
  }
  return *module;
}

// Returns the number of registers of a kernel from tests/golden/gpu/static.txt, with which the machine refuses launches
// that exceed a multiprocessor; 0 if the table lacks the kernel.
inline uint32_t registers_of(int compute, const std::string& kernel) {
  static const auto registers = [] {
    std::map<std::pair<std::string, std::string>, uint32_t> read;
    std::istringstream lines(test::read_source_file("tests/golden/gpu/static.txt"));
    std::string line, name, architecture;
    while (std::getline(lines, line)) {
      std::istringstream row(line);
      uint32_t count = 0;
      if (row >> name >> architecture >> count) {
        read[{name, architecture}] = count;
      }
    }
    return read;
  }();
  const auto found = registers.find({kernel, "sm_" + std::to_string(compute)});
  return found == registers.end() ? 0 : found->second;
}

inline uint64_t argument(uint64_t value) { return value; }
inline uint64_t argument(int64_t value) { return static_cast<uint64_t>(value); }
inline uint64_t argument(uint32_t value) { return value; }
inline uint64_t argument(int32_t value) { return static_cast<uint32_t>(value); }
inline uint64_t argument(float value) { return std::bit_cast<uint32_t>(value); }
inline uint64_t argument(double value) { return std::bit_cast<uint64_t>(value); }

// Returns the number of thread blocks for `count` threads or elements, with `each` of them in a block.
constexpr uint32_t blocks_for(int64_t count, int64_t each) { return static_cast<uint32_t>((count + each - 1) / each); }

// One GPU with its memory.
class Machine {
 public:
  explicit Machine(Target target, ptx::Order order = ptx::Order::kFair) : target_(target), order_(order) {}

  // Add a buffer with values, or an uninitialised one of `count` values, and return its address.
  template <class T>
  uint64_t add(const std::string& name, const std::vector<T>& values) {
    const uint64_t address = memory_.add(name, values.size() * sizeof(T));
    const size_t set = values.size() - (name == unset ? 1 : 0);
    memory_.write(address, std::as_bytes(std::span(values).first(set)));
    return address;
  }
  template <class T>
  uint64_t empty(const std::string& name, size_t count) {
    return memory_.add(name, count * sizeof(T));
  }
  template <class T>
  std::vector<T> read(uint64_t address, size_t count) const {
    std::vector<T> values(count);
    memory_.read(address, std::as_writable_bytes(std::span(values)));
    return values;
  }

  // Launch a kernel of ops/gpu or of a given module. In the first case, a fault makes the running test fail; in the
  // second case, it is left in `fault`.
  template <class... Arguments>
  void run(const std::string& module, std::string_view kernel, std::array<uint32_t, 3> blocks,
           std::array<uint32_t, 3> threads, const Arguments&... arguments) {
    launch(module_of(target_.compute, module), kernel, blocks, threads, true, arguments...);
    if (fault) {
      ADD_FAILURE() << fault->print();
      fault.reset();
    }
  }
  template <class... Arguments>
  void run(const ptx::Module& module, std::string_view kernel, std::array<uint32_t, 3> blocks,
           std::array<uint32_t, 3> threads, const Arguments&... arguments) {
    launch(module, kernel, blocks, threads, false, arguments...);
  }
  // Launches one thread for each of `count` elements, in blocks of 128.
  template <class... Arguments>
  void run_each(const std::string& module, std::string_view kernel, int64_t count, const Arguments&... arguments) {
    run(module, kernel, {blocks_for(count, 128), 1, 1}, {128, 1, 1}, arguments...);
  }

  std::string unset;                // the last element of the buffer with this name stays uninitialised
  std::optional<ptx::Fault> fault;  // the fault of the last launch of a given module
  std::array<uint32_t, 3> last_blocks{}, last_threads{};  // the grid of the last launch

 private:
  template <class... Arguments>
  void launch(const ptx::Module& module, std::string_view kernel, std::array<uint32_t, 3> grid,
              std::array<uint32_t, 3> block, bool checked, const Arguments&... arguments) {
    ASSERT_NE(module.find(kernel), nullptr) << kernel;
    last_blocks = grid;
    last_threads = block;
    const ptx::Launch launch{.blocks = grid,
                             .threads = block,
                             .registers = registers_of(target_.compute, std::string(kernel)),
                             .arguments = {argument(arguments)...}};
    const ptx::Options options{.generation = target_.generation, .order = order_};
    fault = (checked ? CheckedLaunches::instance().execute(module, kernel, launch, memory_, options)
                     : ptx::execute(module, kernel, launch, memory_, options))
                .fault;
  }

  ptx::Memory memory_;
  Target target_;
  ptx::Order order_;
};

// ---- the processor

using Raw = std::vector<std::byte>;

template <class T>
Raw raw(const std::vector<T>& values) {
  Raw bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <class T>
std::vector<T> values_of(const Raw& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// While the object exists, subnormal numbers become zero, as in every thread that runs kernels.
class FlushMode {
 public:
  FlushMode() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushMode() { _mm_setcsr(before_); }
  FlushMode(const FlushMode&) = delete;
  FlushMode& operator=(const FlushMode&) = delete;

 private:
  unsigned before_;
};

// A tensor type in memory order: images have their channels last.
inline TensorType type_of(std::vector<int64_t> dims, DType dtype = DType::kF32) {
  TensorType type;
  type.dtype = dtype;
  type.dims = std::move(dims);
  type.layout = type.has_layouts() ? Layout::kChannelsLast : Layout::kRowMajor;
  return type;
}

struct CpuCall {
  Attrs attrs;
  int64_t rows = 1;
  std::vector<TensorType> inputs, outputs;
  std::string path = "node";
  bool training = true;
};

inline constexpr uint64_t kCallSeed = 7;
inline constexpr int64_t kCallStep = 3;
inline constexpr int64_t kCallRow = 40;

// Runs the kernel of an operator on one row block. `results` has the initial contents of the outputs.
inline void run_cpu(std::string_view op, const CpuCall& call, const std::vector<Raw>& inputs,
                    std::vector<Raw>& results) {
  const FlushMode flush;
  const auto made = find_op(op)->cpu({.inputs = call.inputs,
                                      .outputs = call.outputs,
                                      .attrs = call.attrs,
                                      .rows = call.rows,
                                      .training = call.training,
                                      .isa = Isa::kAvx2,
                                      .path = call.path});
  ASSERT_TRUE(made.ok()) << made.error().message;
  const Kernel& kernel = **made;
  const auto aligned = [](size_t bytes) {
    return std::unique_ptr<std::byte, decltype(&std::free)>(
        static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 128) / 64 * 64)), &std::free);
  };
  const auto scratch = aligned(static_cast<size_t>(kernel.scratch_bytes()));
  std::vector<Raw> taken = inputs;
  std::vector<TensorView> in, out;
  for (size_t i = 0; i < taken.size(); ++i) {
    ASSERT_EQ(kernel.prepared_bytes(static_cast<int>(i)), 0) << op << " prepares an input";
    in.push_back({taken[i].data()});
  }
  for (Raw& result : results) {
    out.push_back({result.data()});
  }
  ASSERT_TRUE(kernel
                  .run({.inputs = in,
                        .outputs = out,
                        .scratch = scratch.get(),
                        .seed = kCallSeed,
                        .step = kCallStep,
                        .first_row = kCallRow,
                        .shared = scratch.get()})
                  .ok());
}

// ---- numbers

// Random numbers of both signs with exponents from 2^low to 2^high.
inline std::vector<float> random_floats(size_t count, uint64_t seed, int low = -6, int high = 3) {
  std::mt19937_64 random(kSeed + seed);
  std::vector<float> values(count);
  for (float& value : values) {
    const auto size = std::ldexp(1.0F + static_cast<float>(random() % 8388608) * 0x1p-23F,
                                 low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1)));
    value = random() % 2 == 0 ? size : -size;
  }
  return values;
}

inline std::vector<uint16_t> rounded(const std::vector<float>& values) {
  std::vector<uint16_t> narrow;
  for (const float value : values) {
    narrow.push_back(to_bf16(value).bits);
  }
  return narrow;
}

// Returns whether two arrays have the same bits. All NaNs count as equal, since arithmetic on a GPU returns only one.
template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& gpu, const std::vector<T>& cpu) {
  if (gpu.size() != cpu.size()) {
    return ::testing::AssertionFailure() << gpu.size() << " and " << cpu.size() << " elements";
  }
  for (size_t i = 0; i < gpu.size(); ++i) {
    if (std::memcmp(&gpu[i], &cpu[i], sizeof(T)) == 0) {
      continue;
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(gpu[i]) && std::isnan(cpu[i])) {
        continue;
      }
    } else if constexpr (std::is_same_v<T, uint16_t>) {
      if ((gpu[i] & 0x7FFF) > 0x7F80 && (cpu[i] & 0x7FFF) > 0x7F80) {
        continue;
      }
    }
    return ::testing::AssertionFailure() << "element " << i << " of " << gpu.size() << " is " << gpu[i]
                                         << " on the GPU and " << cpu[i] << " on the processor, seed " << kSeed;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace xrun::ops::gpu
