// Tests: tests/runtime/bench/calibration/measured_rates_test.cpp
#include "runtime/bench/calibration/measured_rates.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "graph/os/processor_time.h"
#include "runtime/bench/calibration/jpeg_picture.h"
#include "runtime/bench/collectives.h"
#include "runtime/bench/roofline.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/formats/pictures/decode.h"

namespace xrun::runtime {
namespace {

using Clock = std::chrono::steady_clock;
Seconds since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr int kMostThreads = 64;  // larger counts of threads have the figure of this one

Spread spread_of(std::string what, std::vector<double> values) {
  std::ranges::sort(values);
  const double middle = values[values.size() / 2];
  const double far = std::max(values.back() / middle, middle / values.front()) - 1;
  return {std::move(what), middle, far};
}

// Runs `body` on the workers of a device with `threads` threads and `bytes` of memory.
template <typename Body>
Status on_device(int threads, Bytes bytes, const Body& body) {
  XRUN_ASSIGN(const auto devices, start_cpu_devices(std::vector<int>{threads}));
  XRUN_ASSIGN(const auto memory, devices->devices()[0]->map(bytes));
  return run_on_each(*devices, [&](Device& device) -> Status {
    const std::span<float> floats(reinterpret_cast<float*>(memory->kernel_address(0)),
                                  static_cast<size_t>(bytes) / sizeof(float));
    std::ranges::fill(floats, 1.0F);
    body(static_cast<CpuDevice&>(device), floats);
    return {};
  });
}

// Measures the bandwidth of memory and the slow-down of products for 1, 2, 4, ... threads up to the number of cores.
// Counts between them have the figures of the next smaller one.
Status measure_threads(const Host& host, ops::Isa isa, int rounds, Calibration& calibration,
                       std::vector<Spread>& spreads) {
  const int most = std::min(host.cores, kMostThreads);
  double alone = 0;
  for (int threads = 1; threads <= most; ++threads) {
    const bool measured = threads == 1 || threads == most || (threads & (threads - 1)) == 0;
    if (!measured) {
      calibration.bandwidth.push_back(calibration.bandwidth.back());
      calibration.slow_down.push_back(calibration.slow_down.back());
      continue;
    }
    std::vector<double> bytes, products;
    XRUN_TRY(on_device(threads, Roofline::memory_bytes(host.l3_cache), [&](CpuDevice& device, std::span<float> floats) {
      const Roofline roofline(isa, true, floats);
      for (int i = 0; i <= rounds; ++i) {  // the first round is a warm-up
        bytes.push_back(roofline.traffic(device).a_second());
        products.push_back(roofline.products(device).a_processor_second());
      }
    }));
    bytes.erase(bytes.begin());
    products.erase(products.begin());
    spreads.push_back(spread_of(fmt::format("bandwidth, {} thread{}", threads, threads == 1 ? "" : "s"), bytes));
    calibration.bandwidth.push_back(spreads.back().median);
    spreads.push_back(spread_of(fmt::format("products, {} core{}", threads, threads == 1 ? "" : "s"), products));
    alone = threads == 1 ? spreads.back().median : alone;
    calibration.slow_down.push_back(std::max(1.0, alone / spreads.back().median));
  }
  return {};
}

Status measure_exchanges(int rounds, Calibration& calibration, std::vector<Spread>& spreads) {
  constexpr Bytes kSmall = 64 * kKiB;
  constexpr Bytes kLarge = 32 * kMiB;
  std::vector<Spread> gathers, scatters;
  for (const Bytes bytes : {kSmall, kLarge}) {
    XRUN_ASSIGN(const auto figures, measure_collectives({.bytes = bytes, .rounds = 4 * rounds}, {}));
    gathers.push_back(spread_of("all-gather of " + format_bytes(bytes), figures.all_gather));
    scatters.push_back(spread_of("reduce-scatter of " + format_bytes(bytes) + ", without its sums", figures.scattered));
  }
  const auto fit = [&](const std::vector<Spread>& both) {
    return exchange_time(static_cast<double>(kSmall), both[0].median, static_cast<double>(kLarge), both[1].median);
  };
  calibration.all_gather = fit(gathers);
  calibration.reduce_scatter = fit(scatters);
  spreads.insert(spreads.end(), gathers.begin(), gathers.end());
  spreads.insert(spreads.end(), scatters.begin(), scatters.end());
  return {};
}

// Measures a copy by one thread, and the time to hand a task to the thread of another device: half of the time after
// which the caller knows that the task has run.
Status measure_hand_over(const Host& host, int rounds, Calibration& calibration, std::vector<Spread>& spreads) {
  constexpr int kTasks = 200;
  XRUN_ASSIGN(const auto devices, start_cpu_devices(std::vector<int>(static_cast<size_t>(std::min(2, host.cores)), 1)));
  std::vector<double> times;
  for (int i = 0; i <= rounds; ++i) {
    const auto begin = Clock::now();
    for (int task = 0; task < kTasks; ++task) {
      XRUN_TRY(run_on_each(*devices, [](Device&) -> Status { return {}; }));
    }
    times.push_back(since(begin) / kTasks / 2);
  }
  times.erase(times.begin());
  spreads.push_back(spread_of("hand-over", times));
  calibration.hand_over = spreads.back().median;
  constexpr size_t kBytes = 32 << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  std::vector<double> copies;
  for (int i = 0; i <= rounds; ++i) {
    const auto begin = Clock::now();
    std::memcpy(to.data(), from.data(), kBytes);
    copies.push_back(static_cast<double>(kBytes) / since(begin));
    from[0] = static_cast<char>(to[kBytes / 2] + i);  // keeps the copy from being left out
  }
  copies.erase(copies.begin());
  spreads.push_back(spread_of("copy", copies));
  calibration.copy = {*calibration.hand_over, spreads.back().median};
  return {};
}

Status measure_decoding(int rounds, Calibration& calibration, std::vector<Spread>& spreads) {
  constexpr int kHeight = 480;
  constexpr int kWidth = 640;
  const std::string file = jpeg_picture(kHeight, kWidth);
  std::vector<uint8_t> pixels;
  std::vector<double> times;
  for (int i = 0; i <= 2 * rounds; ++i) {
    const Seconds begin = thread_processor_time();
    XRUN_ASSIGN(const PictureSize size, decode_picture(std::as_bytes(std::span(file)), {.channels = 3}, pixels));
    times.push_back((thread_processor_time() - begin) / (size.height * size.width));
  }
  times.erase(times.begin());
  spreads.push_back(spread_of("decoding of a pixel", times));
  calibration.decode = spreads.back().median;
  return {};
}

}  // namespace

ExchangeTime exchange_time(double small_bytes, Seconds small, double large_bytes, Seconds large) {
  const double rate = large > small ? (large_bytes - small_bytes) / (large - small) : large_bytes / large;
  return {std::max(0.0, small - small_bytes / rate), rate};
}

Result<std::vector<Spread>> measure_rates(const Host& host, ops::Isa isa, int rounds,
                                          const std::function<void(std::string)>& progress, Calibration& calibration) {
  const auto begins = [&](const char* what) {
    if (progress) {
      progress(what);
    }
  };
  std::vector<Spread> spreads;
  begins("memory and products by threads");
  XRUN_TRY(measure_threads(host, isa, rounds, calibration, spreads));
  begins("exchanges between devices");
  XRUN_TRY(measure_exchanges(rounds, calibration, spreads));
  XRUN_TRY(measure_hand_over(host, rounds, calibration, spreads));
  begins("decoding");
  XRUN_TRY(measure_decoding(rounds, calibration, spreads));
  return spreads;
}

}  // namespace xrun::runtime
