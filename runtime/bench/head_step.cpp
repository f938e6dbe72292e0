// Only this file of the benchmark calls the head (ops/head/head.h).
// Tests: tests/runtime/cli/commands/bench_test.cpp
#include "runtime/bench/head_step.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>

#include "ops/head/head.h"
#include "ops/head/row_format.h"
#include "ops/head/select_classes.h"
#include "ops/simd/simd.h"
#include "runtime/bench/head_places.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/placement.h"
#include "runtime/device/host.h"

namespace xrun::runtime {
namespace {

// Fills a row with uniform numbers in ±deviation. They depend only on the row's number, so any worker may fill it.
template <typename Element>
void fill(Element* row, int64_t n, int64_t number, float deviation) {
  auto seed = static_cast<uint32_t>(number) * 2654435761U + 12345U;
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525U + 1013904223U;
    const float value = deviation * (static_cast<float>(seed >> 8) * 0x1p-23F - 1);
    if constexpr (sizeof(Element) == 2) {
      row[i] = ops::to_bf16(value);
    } else {
      row[i] = value;
    }
  }
}

// A classifier head in the memory of a device. Threads: only a task of that device uses it.
class HeadStep {
 public:
  HeadStep(const HeadCase& one, const HeadPlaces& places, std::byte* memory, ops::Isa isa)
      : one_(one),
        at_(places),
        memory_(memory),
        join_(places.shards[0].shape, ranges(places), isa),
        active_(places.shards.size()) {
    update_.form.states = one.momentum ? 1 : 0;
    update_.form.momentum = one.momentum ? 0.9 : 0;
    update_.weight = ops::update_scalars(update_.form, 0.1, 0, true, 0);
    update_.seed = 1;
    for (const HeadPlaces::Shard& shard : places.shards) {
      passes_.push_back(shard.shape.shard.size() == 0 ? nullptr : std::make_unique<ops::HeadPasses>(shard.shape, isa));
      stats_.push_back(passes_.back() ? memory + shard.stats : nullptr);
      gradients_.push_back({passes_.back() ? memory + shard.gradient : nullptr,
                            passes_.back() ? head_gradient_rows(shard.shape, 0, one.batch).step : 0});
    }
  }

  void fill_all(ops::Workers& workers) {
    constexpr int64_t kRun = 256;
    const auto deviation = static_cast<float>(1 / std::sqrt(static_cast<double>(one_.dim)));
    workers.for_each((one_.classes + kRun - 1) / kRun, [&](int64_t run, int) {
      std::vector<float> row(static_cast<size_t>(one_.dim));
      for (int64_t c = run * kRun; c < std::min(one_.classes, (run + 1) * kRun); ++c) {
        fill(row.data(), one_.dim, c, deviation);
        const float scale = ops::store_row(one_.weights, row.data(), one_.dim,
                                           RandomStream(1, static_cast<uint64_t>(c)), weight_row(c));
        if (one_.weights == RowFormat::kFp8) {
          at<float>(at_.scales)[c] = scale;
        }
        fill_list(c);
      }
    });
    for (int64_t row = 0; row < one_.batch; ++row) {
      if (one_.bf16) {
        fill(at<ops::Bf16>(at_.features) + row * one_.dim, one_.dim, ~row, 1);
      } else {
        fill(at<float>(at_.features) + row * one_.dim, one_.dim, ~row, 1);
      }
      at<int32_t>(at_.labels)[row] = static_cast<int32_t>(row * 7919 % one_.classes);
    }
    for_shards([&](size_t r) { passes_[r]->prepare(weights(r), workers); });
  }

  // Chooses the active classes of the next step.
  void select(ops::Workers& workers) {
    const std::span<const int32_t> labels(at<int32_t>(at_.labels), static_cast<size_t>(one_.batch));
    for_shards([&](size_t r) {
      if (one_.active > 0) {
        active_[r] =
            ops::select_classes(at_.shards[r].shape, labels, 1, update_.step, memory_ + at_.shards[r].selection,
                                workers, one_.neighbours > 0 ? at<int32_t>(at_.lists) : nullptr);
        all_active_ = active_[r].all;
      }
    });
  }

  void forward(ops::Workers& workers) {
    for_shards([&](size_t r) { passes_[r]->forward(rows(r), weights(r), stats_[r], memory_ + at_.scratch, workers); });
    const std::vector<const std::byte*> all(stats_.begin(), stats_.end());
    join_.combine_stats(all, at<int32_t>(at_.labels), nullptr, at<ops::RowSoftmax>(at_.softmax), at<float>(at_.losses),
                        {}, all_active_);
  }

  void backward(ops::Workers& workers) {
    for_shards([&](size_t r) {
      const int64_t first = at_.shards[r].shape.shard.begin;
      update_.weight_states[0] =
          one_.momentum ? memory_ + at_.states + first * one_.dim * element_bytes(*one_.momentum) : nullptr;
      passes_[r]->backward(rows(r), weights(r), memory_ + at_.shards[r].gradient, &update_, memory_ + at_.scratch,
                           workers);
    });
    ++update_.step;
    join_.reduce_dx(gradients_, memory_ + at_.features, one_.batch, 1, at<float>(at_.feature_gradient));
  }

  double mean_loss() const {
    const std::span<const float> losses(at<float>(at_.losses), static_cast<size_t>(one_.batch));
    return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(one_.batch);
  }

 private:
  static std::vector<ClassRange> ranges(const HeadPlaces& places) {
    std::vector<ClassRange> all;
    for (const HeadPlaces::Shard& shard : places.shards) {
      all.push_back(shard.shape.shard);
    }
    return all;
  }
  template <typename T>
  T* at(Bytes offset) const {
    return reinterpret_cast<T*>(memory_ + offset);
  }
  ops::HeadRows rows(size_t r) const {
    return {.features = memory_ + at_.features,
            .labels = at<int32_t>(at_.labels),
            .softmax = at<ops::RowSoftmax>(at_.softmax),
            .logits = memory_ + at_.shards[r].logits,
            .active = one_.active > 0 ? &active_[r] : nullptr};
  }
  // Fills the list of a class: the class itself, then random classes.
  void fill_list(int64_t c) const {
    const RandomStream random(2, static_cast<uint64_t>(c));
    int32_t* list = at<int32_t>(at_.lists) + c * one_.neighbours;
    for (int64_t i = 0; i < one_.neighbours; ++i) {
      const uint64_t other = random.below(static_cast<uint64_t>(i), static_cast<uint64_t>(one_.classes));
      list[i] = static_cast<int32_t>(i == 0 ? c : static_cast<int64_t>(other));
    }
  }
  std::byte* weight_row(int64_t row) const {
    return memory_ + at_.weights + row * one_.dim * element_bytes(one_.weights);
  }
  ops::HeadWeights weights(size_t r) const {
    const HeadPlaces::Shard& shard = at_.shards[r];
    return {.weight = weight_row(shard.shape.shard.begin),
            .scales = one_.weights == RowFormat::kFp8 ? at<float>(at_.scales) + shard.shape.shard.begin : nullptr,
            .prepared = one_.form.cosine ? at<float>(shard.prepared) : nullptr};
  }
  template <typename Body>
  void for_shards(Body body) const {
    for (size_t r = 0; r < passes_.size(); ++r) {
      if (passes_[r]) {
        body(r);
      }
    }
  }

  const HeadCase& one_;
  const HeadPlaces& at_;
  std::byte* memory_;
  ops::HeadJoin join_;
  ops::HeadUpdate update_;
  std::vector<std::unique_ptr<ops::HeadPasses>> passes_;  // index: shard; null: the shard has no classes
  std::vector<std::byte*> stats_;
  std::vector<ops::HeadDx> gradients_;
  std::vector<ops::ActiveClasses> active_;  // index: shard; the active classes of the current step
  int64_t all_active_ = 0;
};

// The largest number of classes whose head fits in free memory; 0: not even one fits.
int64_t classes_that_fit(HeadCase one, const Host& host) {
  int64_t fit = 0;
  int64_t too_many = one.classes;
  while (too_many - fit > 1) {
    one.classes = fit + (too_many - fit) / 2;
    (head_memory(one, host.l3_cache).sum() <= host.memory_free ? fit : too_many) = one.classes;
  }
  return fit;
}

Status check_memory(const HeadCase& one, const Host& host) {
  const HeadMemory need = head_memory(one, host.l3_cache);
  if (need.sum() <= host.memory_free) {
    return {};
  }
  const int64_t fit = classes_that_fit(one, host);
  Error error{ErrorKind::kInfeasible, "XG0601",
              "the head does not fit: it needs " + format_bytes(need.sum()) + ", " + format_bytes(host.memory_free) +
                  " are free",
              fit > 0 ? "at most " + format_count(fit) + " classes fit: --classes " + std::to_string(fit)
                      : "free memory, or measure a smaller --batch or --dim"};
  error.notes.push_back("class weights take " + format_bytes(need.weights) + ", states " + format_bytes(need.states) +
                        (need.lists > 0 ? ", lists " + format_bytes(need.lists) : "") + ", kept logits " +
                        format_bytes(need.logits) + " (none with --kept 0), buffers of a step " +
                        format_bytes(need.buffers) + ", arrays of the roofline " + format_bytes(need.roofline));
  return error;
}

}  // namespace

double roofline_share(const HeadCase& one, const HeadRound& round) {
  const double best = head_step_flops(one) / round.rates.flops.a_second() +
                      head_step_exponentials(one) / round.rates.exponentials.a_second() +
                      static_cast<double>(head_step_traffic(one)) / round.rates.bytes.a_second();
  return best / round.step();
}

double roofline_share_of_processors(const HeadCase& one, const HeadRound& round) {
  const double best = head_step_flops(one) / round.rates.flops.a_processor_second() +
                      head_step_exponentials(one) / round.rates.exponentials.a_processor_second() +
                      static_cast<double>(head_step_traffic(one)) / round.rates.bytes.a_processor_second();
  return best / (round.selection.processor + round.forward.processor + round.backward.processor);
}

Result<HeadFigures> measure_head_step(const HeadCase& one) {
  XRUN_ASSIGN(const ops::Isa isa, ops::choose_isa());
  const Host host = detect_host();
  XRUN_TRY(check_memory(one, host));
  const int threads[] = {one.threads};
  const CpuTopology topology = read_cpu_topology();
  XRUN_ASSIGN(const auto devices,
              start_cpu_devices(threads, topology.here ? place_devices(topology, threads) : std::vector<DeviceCpus>()));
  HeadFigures figures{.isa = isa, .memory = head_memory(one, host.l3_cache), .before = resident()};
  const HeadPlaces places(one);
  figures.empty_shards = std::ranges::count_if(
      places.shards, [](const HeadPlaces::Shard& shard) { return shard.shape.shard.size() == 0; });

  XRUN_TRY(run_on_each(*devices, [&](Device& device) -> Status {
    ops::Workers& workers = static_cast<CpuDevice&>(device);
    XRUN_ASSIGN(const auto memory, device.map(places.end));
    HeadStep head(one, places, memory->kernel_address(0), isa);
    head.fill_all(workers);
    head.select(workers);
    head.forward(workers);
    head.backward(workers);
    figures.first_loss = head.mean_loss();
    figures.peak = peak_resident();  // a step allocates nothing, so this is the peak of all steps

    XRUN_ASSIGN(const auto arrays, device.map(figures.memory.roofline));
    const Roofline roofline(isa, one.bf16,
                            {reinterpret_cast<float*>(arrays->kernel_address(0)),
                             static_cast<size_t>(figures.memory.roofline) / sizeof(float)});
    arrays->fill(0, figures.memory.roofline, std::byte{0});
    figures.instruction = roofline.instruction();
    for (int i = 0; i < one.rounds; ++i) {
      HeadRound round{.selection = {}, .forward = {}, .backward = {}, .rates = roofline.measure(workers)};
      round.selection = timed([&] { head.select(workers); });
      round.forward = timed([&] { head.forward(workers); });
      round.backward = timed([&] { head.backward(workers); });
      figures.rounds.push_back(round);
    }
    figures.last_loss = head.mean_loss();
    return {};
  }));
  return figures;
}

}  // namespace xrun::runtime
