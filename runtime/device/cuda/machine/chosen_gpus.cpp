// Tests: tests/cuda/machine/chosen_gpus_test.cpp
#include "runtime/device/cuda/machine/chosen_gpus.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <map>
#include <numeric>

#include "graph/base/errors.h"
#include "runtime/device/cuda/driver/context.h"
#include "runtime/device/cuda/driver/driver_errors.h"
#include "runtime/device/cuda/machine/card.h"

namespace xrun::cuda {
namespace {

constexpr Bytes kMostReserve = 512 * kMiB;
constexpr Bytes kPage = 2 * kMiB;  // drivers allocate memory of a GPU in such pages

Result<int> count_gpus(const DriverTable& driver) {
  int count = 0;
  XRUN_TRY(to_status(driver.cuDeviceGetCount(&count), "cuDeviceGetCount", "counting GPUs"));
  return count;
}

Status check_number(int number, int count) {
  if (number < count) {
    return {};
  }
  const std::string all = count == 1 ? "one GPU, cuda:0" : fmt::format("{} GPUs, cuda:0 to cuda:{}", count, count - 1);
  const std::string fix = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr
                              ? "count the GPUs in the order of CUDA_VISIBLE_DEVICES, from 0, or unset this variable"
                          : count == 1
                              ? "give --devices cuda:0; `nvidia-smi -L` lists the GPUs"
                              : fmt::format("give numbers from 0 to {}; `nvidia-smi -L` lists the GPUs", count - 1);
  return world_error("XG0852", {"there is no cuda:{}: the driver finds {}{}", number, all, hidden_text()}, fix);
}

Status check_capability(const Card& card) {
  if (card.capability >= kLeastCapability) {
    return {};
  }
  return world_error("XG0852",
                     {"cuda:{}, {}, has compute capability {}.{}, and the kernels need 8.0 or more", card.number,
                      card.name, card.capability / 10, card.capability % 10},
                     "use a GPU of the generation Ampere or a later one, or CPUs: leave out `--devices cuda`");
}

Result<MemoryInfo> memory_of(const DriverTable& driver, int number) {
  XRUN_ASSIGN(const auto context, Context::open(driver, number));
  return context->memory();
}

// Reads a card that a plan may use.
Result<Card> usable_card(const DriverTable& driver, int number, int count) {
  XRUN_TRY(check_number(number, count));
  XRUN_ASSIGN(Card card, read_card(driver, number));
  XRUN_TRY(check_capability(card));
  return card;
}

// The figures of one of `shared` devices of a GPU.
GpuDef share_of(GpuDef gpu, Bytes memory, int shared) {
  gpu.memory = memory;
  gpu.bytes_per_second /= shared;
  gpu.flops_per_second_f32 /= shared;
  gpu.flops_per_second_bf16 /= shared;
  gpu.host_rate /= shared;
  return gpu;
}

std::string note_of(const Card& first, const CardFigures& figures, const ChosenGpus& chosen, int shared) {
  return fmt::format("{}: {} with {} of memory{}{}", print_numbers(chosen.numbers), first.name,
                     format_bytes(chosen.figures.memory),
                     shared == 1 ? "" : fmt::format(" for each of the {} devices that share a GPU", shared),
                     figures.assumption.empty() ? "" : ", " + figures.assumption);
}

}  // namespace

std::string print_numbers(std::span<const int> numbers) {
  return numbers.empty() ? "cuda" : fmt::format("cuda:{}", fmt::join(numbers, ","));
}

std::string hidden_text() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? "" : fmt::format("; CUDA_VISIBLE_DEVICES is \"{}\", which hides all others", visible);
}

Result<ChosenGpus> choose_gpus(const DriverTable& driver, std::span<const int> numbers) {
  XRUN_ASSIGN(const int count, count_gpus(driver));
  ChosenGpus chosen{.numbers = {numbers.begin(), numbers.end()}, .figures = {}, .note = ""};
  if (numbers.empty()) {
    chosen.numbers.resize(static_cast<size_t>(count));
    std::iota(chosen.numbers.begin(), chosen.numbers.end(), 0);
  }
  std::map<int, int> devices;  // number of devices of each GPU
  for (const int number : chosen.numbers) {
    ++devices[number];
  }
  XRUN_ASSIGN(const Card first, usable_card(driver, chosen.numbers.front(), count));
  const CardFigures figures = figures_of(first);
  Bytes memory = std::numeric_limits<Bytes>::max();
  int shared = 1;
  for (const auto& [number, here] : devices) {
    XRUN_ASSIGN(const Card card, usable_card(driver, number, count));
    if (figures_of(card).gpu.name != figures.gpu.name) {
      return usage_error("XG0635",
                         {"cuda:{} is an {}, and cuda:{} an {}: the devices of a plan are GPUs of one kind",
                          first.number, first.name, number, card.name},
                         "name GPUs of one kind: --devices " + print_numbers({&first.number, 1}));
    }
    XRUN_ASSIGN(const MemoryInfo has, memory_of(driver, number));
    const Bytes usable = (has.free - std::min(has.free / 8, kMostReserve)) / here / kPage * kPage;
    if (usable <= 0) {
      return world_error("XG0854",
                         {"cuda:{} has {} of its {} free", number, format_bytes(has.free), format_bytes(has.total)},
                         "end other programs on this GPU (`nvidia-smi` lists them), or use another one");
    }
    memory = std::min(memory, usable);
    shared = std::max(shared, here);
  }
  chosen.figures = share_of(figures.gpu, memory, shared);
  chosen.note = note_of(first, figures, chosen, shared);
  return chosen;
}

Status check_chosen(const DriverTable& driver, std::span<const int> numbers, const std::string& kind,
                    std::span<const Bytes> needs) {
  XRUN_ASSIGN(const int count, count_gpus(driver));
  std::map<int, Bytes> sums;
  for (size_t device = 0; device < numbers.size(); ++device) {
    sums[numbers[device]] += needs[device];
  }
  for (const auto& [number, need] : sums) {
    XRUN_ASSIGN(const Card card, usable_card(driver, number, count));
    if (figures_of(card).gpu.name != kind) {
      return content_error("XG0635",
                           {"the plan is for GPUs of the kind {}, and cuda:{} is an {}", kind, number, card.name},
                           "plan for the GPUs of this machine: xrun plan MODEL --devices " + print_numbers(numbers));
    }
    XRUN_ASSIGN(const MemoryInfo has, memory_of(driver, number));
    if (need > has.free) {
      return world_error("XG0854",
                         {"cuda:{} has {} of its {} free, and the plan needs {} there", number, format_bytes(has.free),
                          format_bytes(has.total), format_bytes(need)},
                         "end other programs on this GPU (`nvidia-smi` lists them), or plan for the memory that is "
                         "free: xrun plan MODEL --devices " +
                             print_numbers(numbers));
    }
  }
  return {};
}

}  // namespace xrun::cuda
