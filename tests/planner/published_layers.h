// Models that others have measured, by the figures of their layers: operators whose work, weights and kept values are
// arguments, and the GPUs of the measurements.
#pragma once

#include <string>
#include <vector>

#include "graph/settings/gpu_def.h"
#include "planner/cost/cost_model.h"
#include "planner/program/machine.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner::testing {

// The data sheet "NVIDIA Tesla P40": 12 TFLOP/s in f32, 346 GB/s, 24 GB, PCIe 3.0 x16.
inline const GpuDef kP40{"p40", 24'000'000'000, 346e9, 12e12, 12e12, 5e-6, 12e9, 12e9};
// A core of a TPU v3 (Jouppi et al., "A Domain-Specific Supercomputer for Training Deep Neural Networks", CACM 2020):
// 61.5 TFLOP/s, half of the chip's 900 GB/s, 16 GiB.
inline const GpuDef kTpuCore{"tpu_v3", 16 * kGiB, 450e9, 61.5e12, 61.5e12, 0, 60e9, 10e9};

inline Machine gpus_of(const GpuDef& gpu, int count, int nodes = 1, const NetworkSpec& network = {}) {
  Machine machine{.name = gpu.name,
                  .cores = 64 * nodes,
                  .devices = count,
                  .threads = count,
                  .memory = 512 * kGiB * nodes,
                  .node_memory = 512 * kGiB,
                  .ranks = nodes,
                  .network = network,
                  .gpu = gpu.name,
                  .device_memory = gpu.memory,
                  .device_link = gpu.link_rate};
  for (int d = 0; d < count && nodes > 1; ++d) {
    machine.device_nodes.push_back(d * nodes / count);
  }
  return machine;
}

// Facts of kernels that reach `efficiency` times the rates of a GPU.
inline KernelFacts facts_of(const GpuDef& gpu, double efficiency = 1) {
  KernelFacts facts;
  facts.isa = gpu.name;
  facts.digest = "published";
  facts.flops_per_second_f32 = efficiency * gpu.flops_per_second_f32;
  facts.flops_per_second_bf16 = efficiency * gpu.flops_per_second_bf16;
  facts.bytes_per_second = efficiency * gpu.bytes_per_second;
  facts.host_rate = gpu.host_rate;
  facts.call = gpu.launch;
  return facts;
}

// A kernel's work for one sample: its operations, and the bytes that it reads and writes.
struct KernelWork {
  int64_t flops = 0;
  int64_t bytes = 0;
};
// A layer, as the sources of its model count layers.
struct KernelList {
  std::vector<KernelWork> kernels;
  int64_t params = 0;
  // Values of one sample: those that the backward pass reads, which are the inputs of convolutions and norms and the
  // choices of pools, and those of the result.
  int64_t kept = 0;
  int64_t result = 0;

  void conv(int64_t in, int64_t out, int64_t k, int64_t size_in, int64_t size_out) {
    conv(in, out, k, k, size_in, size_out);
  }
  void conv(int64_t in, int64_t out, int64_t k1, int64_t k2, int64_t size_in, int64_t size_out) {
    kernels.push_back(
        {2 * in * out * k1 * k2 * size_out * size_out, 4 * (in * size_in * size_in + out * size_out * size_out)});
    params += in * out * k1 * k2;
    kept += in * size_in * size_in;
  }
  // An element-wise function of `reads` tensors.
  void map(int64_t channels, int64_t size, int64_t reads = 1) {
    kernels.push_back({channels * size * size, 4 * channels * size * size * (reads + 1)});
  }
  // Batch norm reads its input twice.
  void norm(int64_t channels, int64_t size) {
    kernels.push_back({4 * channels * size * size, 12 * channels * size * size});
    params += 2 * channels;
    kept += channels * size * size;
  }
  void pool(int64_t channels, int64_t size_in, int64_t size_out) {
    kernels.push_back({9 * channels * size_out * size_out, 4 * channels * (size_in * size_in + size_out * size_out)});
    kept += channels * size_out * size_out;
  }
  void linear(int64_t in, int64_t out) {
    kernels.push_back({2 * in * out, 4 * (in + out)});
    params += in * out + out;
  }
};

// Returns the time of the forward pass of each layer for `rows` samples, by the cost model.
inline std::vector<Seconds> forward_times(const std::vector<KernelList>& layers, int64_t rows, const CostModel& cost) {
  static const OpDef kernel{.name = "kernel", .infer = ops::like_first, .cost = [](Types, Types, const Attrs& attrs) {
                              return OpCost{static_cast<double>(attrs.integer("flops")), attrs.integer("bytes")};
                            }};
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {kBatch, 1}});
  std::vector<Seconds> times;
  for (const KernelList& layer : layers) {
    Seconds sum = 0;
    for (const KernelWork& work : layer.kernels) {
      const NodeId node =
          call_op(graph, kernel, {x}, {{"flops", work.flops}, {"bytes", work.bytes}}, "", {}, {}).value();
      sum += cost.node(graph, node, rows);
    }
    times.push_back(sum);
  }
  return times;
}

}  // namespace xrun::planner::testing
