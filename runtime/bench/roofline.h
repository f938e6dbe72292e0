// The machine's peak rates, measured with the workers and the instruction set of the code that is compared with them:
// products in registers, exponentials in the first-level cache, and memory traffic. Source: Williams, Waterman,
// Patterson, "Roofline: An Insightful Visual Performance Model", CACM 2009.
#pragma once

#include <span>
#include <string_view>

#include "graph/base/units.h"
#include "ops/simd/isa.h"
#include "ops/workers.h"

namespace xrun::runtime {

// Wall time, and processor time of this process. Only wall time includes the time that other programs take.
struct Elapsed {
  Seconds wall = 0;
  Seconds processor = 0;  // total of all threads
};
Elapsed elapsed_now();
template <typename Body>
Elapsed timed(Body body) {
  const Elapsed begin = elapsed_now();
  body();
  const Elapsed end = elapsed_now();
  return {end.wall - begin.wall, end.processor - begin.processor};
}

// An amount of work and the time that it took.
struct MachineRate {
  double amount = 0;
  Elapsed time;
  double a_second() const { return amount / time.wall; }
  double a_processor_second() const { return amount / time.processor; }
};
struct MachineRates {
  MachineRate flops;         // operations: multiplications and additions
  MachineRate exponentials;  // exponentials of f32, as heads compute them
  MachineRate bytes;         // bytes read and written
};

class Roofline {
 public:
  // The size of the arrays that `traffic` needs; it is so large that caches cannot hold them.
  static Bytes memory_bytes(Bytes last_cache);

  //   bf16    measure products of bf16 operands, with the instructions that heads use for them on `isa`
  //   memory  memory_bytes() bytes of memory of the workers' device
  Roofline(ops::Isa isa, bool bf16, std::span<float> memory) : isa_(isa), bf16_(bf16), memory_(memory) {}

  // Each function measures for a twentieth of a second.
  MachineRate products(ops::Workers& workers) const;
  MachineRate exponentials(ops::Workers& workers) const;
  MachineRate traffic(ops::Workers& workers) const;
  MachineRates measure(ops::Workers& workers) const {
    return {products(workers), exponentials(workers), traffic(workers)};
  }

  // Describes the instruction of the measured products: "f32 FMA of 512 bits".
  std::string_view instruction() const;

 private:
  ops::Isa isa_;
  bool bf16_;
  std::span<float> memory_;
};

}  // namespace xrun::runtime
