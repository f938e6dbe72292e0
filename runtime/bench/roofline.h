// What the machine can do at best: products in registers and traffic of memory, measured with the workers and the
// instruction set of the code that is compared with them.
// Source: Williams, Waterman, Patterson, "Roofline: An Insightful Visual Performance Model", CACM 2009.
#pragma once

#include <span>
#include <string_view>

#include "graph/base/units.h"
#include "ops/isa.h"
#include "ops/workers.h"

namespace xrun::runtime {

// Time on the clock, and on the processors while they ran this process: other programs take their share of the first.
struct Elapsed {
  Seconds wall = 0;
  Seconds processor = 0;  // of all threads together
};
Elapsed elapsed_now();
template <typename Body>
Elapsed timed(Body body) {
  const Elapsed begin = elapsed_now();
  body();
  const Elapsed end = elapsed_now();
  return {end.wall - begin.wall, end.processor - begin.processor};
}

// What was done in a measured time.
struct MachineRate {
  double amount = 0;
  Elapsed time;
  double a_second() const { return amount / time.wall; }
  double a_processor_second() const { return amount / time.processor; }
};
struct MachineRates {
  MachineRate flops;  // operations: multiplications and additions
  MachineRate bytes;  // read and written
};

class Roofline {
 public:
  // Memory that `traffic` needs, so that no cache holds it.
  static Bytes memory_bytes(Bytes last_cache);

  // bf16: products of bf16 operands, in the instructions that heads use for them on `isa`.
  //   memory  memory_bytes(), of the device that the workers belong to
  Roofline(ops::Isa isa, bool bf16, std::span<float> memory) : isa_(isa), bf16_(bf16), memory_(memory) {}

  // Takes about a tenth of a second.
  MachineRates measure(ops::Workers& workers) const { return {products(workers), traffic(workers)}; }

  // The instruction of the products: "f32 FMA of 512 bits".
  std::string_view instruction() const;

 private:
  MachineRate products(ops::Workers& workers) const;
  MachineRate traffic(ops::Workers& workers) const;

  ops::Isa isa_;
  bool bf16_;
  std::span<float> memory_;
};

}  // namespace xrun::runtime
