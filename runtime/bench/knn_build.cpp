// Only this file of the benchmark calls the graphs (ops/knn/knn.h, ops/knn/knn_cells.h).
// Tests: tests/runtime/cli/commands/bench_knn_test.cpp
#include "runtime/bench/knn_build.h"

#include "graph/base/random.h"
#include "ops/knn/knn.h"
#include "ops/knn/knn_cells.h"
#include "ops/knn/knn_recall.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/placement.h"
#include "runtime/device/host.h"

namespace xrun::runtime {
namespace {

constexpr uint64_t kRows = 0x6b6e6e72;  // key of the random numbers of the rows

KnnShape shape_of(const KnnCase& one) {
  return {.classes = one.classes, .dim = one.dim, .neighbours = one.neighbours, .workers = one.threads};
}

ops::KnnCells cells_of(const KnnCase& one, ops::Isa isa) {
  return {{.graph = shape_of(one), .probes = one.probes}, isa};
}

ops::KnnRecall recall_of(const KnnCase& one, ops::Isa isa) { return {shape_of(one), 0, isa}; }

Bytes scratch_bytes(const KnnCase& one, ops::Isa isa) {
  return one.probes > 0 ? cells_of(one, isa).scratch_bytes() : ops::KnnGraph(shape_of(one), isa).scratch_bytes();
}

KnnMemory memory_of(const KnnCase& one, ops::Isa isa, Bytes last_cache) {
  return {.weights = align_up(one.classes * one.dim * 4),
          .lists = align_up(one.classes * one.neighbours * 4),
          .scratch = align_up(scratch_bytes(one, isa)),
          .recall = one.probes > 0 ? align_up(recall_of(one, isa).scratch_bytes()) : 0,
          .roofline = Roofline::memory_bytes(last_cache)};
}

Status check_memory(const KnnCase& one, ops::Isa isa, const Host& host) {
  const KnnMemory need = memory_of(one, isa, host.l3_cache);
  if (need.sum() <= host.memory_free) {
    return {};
  }
  KnnCase fit = one;
  fit.classes = 0;
  for (int64_t step = int64_t{1} << 32; step > 0; step /= 2) {
    KnnCase more = fit;
    more.classes += step;
    if (more.classes < one.classes && memory_of(more, isa, host.l3_cache).sum() <= host.memory_free) {
      fit = more;
    }
  }
  Error error{ErrorKind::kInfeasible, "XG0601",
              "the graph does not fit: it needs " + format_bytes(need.sum()) + ", " + format_bytes(host.memory_free) +
                  " are free",
              fit.classes > 0
                  ? "at most " + format_count(fit.classes) + " classes fit: --classes " + std::to_string(fit.classes)
                  : "free memory, or measure a smaller --dim or --neighbours"};
  error.notes.push_back("class rows take " + format_bytes(need.weights) + ", lists " + format_bytes(need.lists) +
                        ", the search " + format_bytes(need.scratch) + ", arrays of the roofline " +
                        format_bytes(need.roofline));
  return error;
}

}  // namespace

double knn_pairs(const KnnCase& one) {
  const auto classes = static_cast<double>(one.classes);
  return classes * (classes - 1) / 2;
}

Flops knn_flops(const KnnCase& one) { return 2 * static_cast<double>(one.dim) * knn_pairs(one); }

Result<KnnFigures> measure_knn_build(const KnnCase& one) {
  XRUN_ASSIGN(const ops::Isa isa, ops::choose_isa());
  const Host host = detect_host();
  XRUN_TRY(check_memory(one, isa, host));
  const int threads[] = {one.threads};
  const CpuTopology topology = read_cpu_topology();
  XRUN_ASSIGN(const auto devices,
              start_cpu_devices(threads, topology.here ? place_devices(topology, threads) : std::vector<DeviceCpus>()));
  KnnFigures figures{.isa = isa, .memory = memory_of(one, isa, host.l3_cache), .before = resident()};

  XRUN_TRY(run_on_each(*devices, [&](Device& device) -> Status {
    ops::Workers& workers = static_cast<CpuDevice&>(device);
    const KnnMemory& need = figures.memory;
    XRUN_ASSIGN(const auto memory, device.map(need.weights + need.lists + need.scratch));
    auto* weights = reinterpret_cast<float*>(memory->kernel_address(0));
    auto* lists = reinterpret_cast<int32_t*>(memory->kernel_address(need.weights));
    std::byte* scratch = memory->kernel_address(need.weights + need.lists);
    workers.for_each(one.classes, [&](int64_t c, int) {
      const std::span<float> row(weights + c * one.dim, static_cast<size_t>(one.dim));
      if (one.fill_row) {
        one.fill_row(c, row);
      } else {
        RandomStream(0, static_cast<uint64_t>(c), 0, kRows).fill_normal(0, row);
      }
    });
    const auto build = [&] {
      return timed([&] {
        if (one.probes > 0) {
          figures.compared = cells_of(one, isa).build(weights, lists, scratch, workers).compared;
        } else {
          const ops::KnnGraph graph(shape_of(one), isa);
          figures.searched_again = graph.build(weights, lists, scratch, workers).searched_again;
        }
      });
    };
    figures.rounds.push_back({.time = build()});
    figures.peak = peak_resident();  // a build allocates nothing, so this is the peak of all builds

    if (one.probes > 0) {
      XRUN_ASSIGN(const auto working, device.map(need.recall));
      figures.recall_time = timed(
          [&] { figures.recall = recall_of(one, isa).measure(weights, lists, working->kernel_address(0), workers); });
    }

    XRUN_ASSIGN(const auto arrays, device.map(need.roofline));
    arrays->fill(0, need.roofline, std::byte{0});
    const Roofline roofline(
        isa, ops::has_native_bf16(isa),
        {reinterpret_cast<float*>(arrays->kernel_address(0)), static_cast<size_t>(need.roofline) / sizeof(float)});
    figures.instruction = roofline.instruction();
    figures.rounds.back().flops = roofline.products(workers);
    while (static_cast<int>(figures.rounds.size()) < one.rounds) {
      const Elapsed time = build();
      figures.rounds.push_back({.time = time, .flops = roofline.products(workers)});
    }
    return {};
  }));
  return figures;
}

}  // namespace xrun::runtime
