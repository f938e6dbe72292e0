// KernelFacts: sizes and times of kernels as a value, made by ops/ and read by the planner, which never sees a kernel.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/units.h"
#include "graph/graph.h"
#include "graph/settings/calibration.h"

namespace xrun {

// Facts of one node. Times are those of a call on one row block.
struct KernelFact {
  Bytes scratch = 0;                // scratch memory of a worker during a call on one row block
  Bytes block_scratch = 0;          // further scratch memory for each further row block of a call, as GPUs make them
  bool prepares_in_scratch = true;  // whether making a prepared weight needs `scratch`, too
  std::vector<Bytes> prepared;      // per input: bytes of the prepared (reordered, rounded) weight; 0: not prepared
  std::optional<Seconds> time;      // time of the call, measured or given by the user; nullopt: use the analytic cost
  std::vector<Seconds> prepare;     // per input: time to make the prepared form; empty: unknown
  double work = 1;                  // cost of the kernel's arithmetic as a fraction of the operator's flops
  std::string missing;              // why the kind of device has no kernel for the node; empty if it has one

  Bytes scratch_of(int64_t blocks) const { return scratch + (blocks - 1) * block_scratch; }
};

struct KernelFacts {
  std::string isa;  // "avx512_bf16"; for GPUs their kind, "h100"
  bool measured = false;
  int threads = 1;                // fewest threads that made a measured call at the same time
  std::vector<KernelFact> nodes;  // the facts of each node; index: NodeId
  Seconds sample = 0;             // time of one core to read and transform a training sample; 0: unknown
  // The seconds of one multiply-add in a head pass, which makes rows · classes · dim of them; 0: unknown.
  double head_seconds_per_mac = 0;
  Flops flops_per_second_f32 = 1e11;  // speed of one worker, which is a core or a GPU, for the analytic cost
  Flops flops_per_second_bf16 = 2e11;
  double bytes_per_second = 1e10;  // bandwidth of one worker over an update's buffers, while no other worker streams
  // The number of workers that together fill the bandwidth of a node's memory, each at `bytes_per_second`; 0: unknown.
  double filling_workers = 0;
  double host_rate = 0;  // bytes a second that a GPU copies from its host; 0: devices read the host's memory
  Seconds call = 2e-7;   // time to call a kernel with its arguments, or to launch one on a GPU
  std::string digest;    // digest of all fields above except times
  // Measured rates of exchanges and of threads that work at the same time; null: constants of the cost model.
  std::shared_ptr<const Calibration> calibration;
};

}  // namespace xrun
