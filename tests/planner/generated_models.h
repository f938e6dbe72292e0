// Models and machines that are generated from a seed, for measurements of the quality of the search.
#pragma once

#include <cmath>
#include <string>

#include "graph/base/random.h"
#include "planner/program/machine.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner::testing {

// Random choices, each of which takes the next element of a stream.
class Draw {
 public:
  explicit Draw(uint64_t seed) : stream_(seed, 51) {}
  // A whole number from `low` to `high`.
  int64_t whole(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(stream_.below(at_++, static_cast<uint64_t>(high - low + 1)));
  }
  // A number from `low` to `high` with a uniform logarithm.
  double spread(double low, double high) {
    return low * std::exp(static_cast<double>(stream_.uniform(at_++)) * std::log(high / low));
  }
  bool chance(double probability) { return static_cast<double>(stream_.uniform(at_++)) < probability; }
  template <typename T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<size_t>(whole(0, std::ssize(values) - 1))];
  }

 private:
  RandomStream stream_;
  uint64_t at_ = 0;
};

struct Generated {
  Module module;
  Machine machine;
  std::string text;  // "9 layers with skips, 20 902 classes, batch 512 of row blocks of 32; 8 devices on 4 cores"
};

// Returns a chain or a residual network of layers of different widths, with or without batch norm, and with a dense
// classifier or a head of which all classes or a tenth of them are active; and a machine with 1 to 16 devices on one or
// more nodes, some with more devices than cores.
inline Generated generate_model(uint64_t seed) {
  Draw draw(seed);
  ModelOptions options{.layers = static_cast<int>(draw.whole(2, 14))};
  options.input = draw.whole(16, 512);
  options.width = 8 * static_cast<int64_t>(draw.spread(4, 96));
  options.skips = draw.chance(0.5);
  for (int64_t width = options.width; std::ssize(options.widths) < options.layers;) {
    width = draw.chance(options.skips ? 0.3 : 0.7) ? 8 * static_cast<int64_t>(draw.spread(4, 96)) : width;
    options.widths.push_back(width);
  }
  options.norm = draw.chance(0.6);
  options.head = draw.chance(0.6);
  options.classes = static_cast<int64_t>(options.head ? draw.spread(500, 60'000) : draw.spread(10, 1'000));
  options.norm_rows = draw.one_of<int64_t>({2, 4, 8, 16, 32});
  options.batch = options.norm_rows * draw.one_of<int64_t>({4, 6, 8, 12, 16, 24, 30, 32, 48, 64});
  options.optimizer = draw.chance(0.5) ? "sgd" : "adamw";
  Generated made{.module = make_module(options)};
  if (options.head && draw.chance(0.4)) {
    made.module.train.active_classes = {.kind = ActiveSpec::kSample, .amount = 0.1};
  }
  const int64_t nodes = draw.one_of<int64_t>({1, 1, 1, 2, 4});
  const int devices = static_cast<int>(nodes * draw.whole(1, nodes == 1 ? 16 : 16 / nodes));
  const int64_t cores =
      draw.chance(0.4) ? std::max<int64_t>(1, devices / nodes / draw.whole(2, 4)) : devices / nodes * draw.whole(1, 2);
  const ClusterSpec cluster{.nodes = nodes,
                            .network = {.name = "ethernet", .rate = draw.spread(2.5e7, 2.5e9), .latency = 1e-4},
                            .cores = cores,
                            .memory = 4 * kGiB,
                            .reserve = 0};
  made.machine = make_machine(cluster, {.devices = devices}, 1, kGiB);
  const bool sampled = made.module.train.active_classes.kind == ActiveSpec::kSample;
  made.text = std::to_string(options.layers) + " layers" + (options.skips ? " with skips" : "") +
              (options.norm ? " and norms, " : ", ") + std::to_string(options.classes) +
              (options.head ? " classes of a head" : " classes") + (sampled ? ", a tenth of them active" : "") +
              ", batch " + std::to_string(options.batch) + " of row blocks of " + std::to_string(options.norm_rows) +
              "; " + made.machine.name + " with " + std::to_string(made.machine.cores) + " cores";
  return made;
}

}  // namespace xrun::planner::testing
