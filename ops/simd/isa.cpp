#include "ops/simd/isa.h"

#include <array>
#include <cpuid.h>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

namespace xrun::ops {
namespace {

struct IsaRow {
  Isa isa;
  std::string_view name;
};

constexpr std::array<IsaRow, 4> kIsas{
    {{Isa::kAvx2, "avx2"}, {Isa::kAvx512, "avx512"}, {Isa::kAvx512Bf16, "avx512_bf16"}, {Isa::kAmx, "amx"}}};

// Asks Linux for permission to use the tile registers (arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)). Without it
// the first tile instruction would end the process.
bool grant_tiles() {
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_amx_bf16() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) {
    return false;
  }
  constexpr unsigned kAmxBf16 = 1U << 22;
  constexpr unsigned kAmxTile = 1U << 24;
  return (d & kAmxBf16) != 0 && (d & kAmxTile) != 0 && grant_tiles();
}

Isa find_hardware() {
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                      __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  if (!avx512) {
    return Isa::kAvx2;
  }
  if (__builtin_cpu_supports("avx512bf16") == 0) {
    return Isa::kAvx512;
  }
  return has_amx_bf16() ? Isa::kAmx : Isa::kAvx512Bf16;
}

// Whether bf16 products are slower than f32 ones. Intel's processors with AMX run VDPBF16PS at a quarter of the width
// of the tiles. If the tiles are hidden, as in virtual machines, bf16 convolutions reach 110-155 GFLOP/s and f32 ones
// 215-290 (one Sapphire Rapids core, oneDNN 2.6), so bf16 operands are computed in f32 unless XRUN_ISA asks for more.
// Cooper Lake (model 85) has full width.
bool has_slow_bf16() {
  if (__builtin_cpu_is("intel") == 0) {
    return false;
  }
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  __get_cpuid(1, &a, &b, &c, &d);
  const unsigned model = ((a >> 4) & 0xF) | ((a >> 12) & 0xF0);
  return model != 85;
}

// Returns the value of XRUN_ISA, or null if it is not set or empty.
const char* wanted_isa() {
  const char* const value = std::getenv("XRUN_ISA");
  return value == nullptr || *value == 0 ? nullptr : value;
}

}  // namespace

Isa detect_isa() {
  const Isa hardware = find_hardware();
  if (const char* limit = wanted_isa()) {
    if (const auto isa = parse_isa(limit)) {
      return *isa < hardware ? *isa : hardware;
    }
  }
  return hardware == Isa::kAvx512Bf16 && has_slow_bf16() ? Isa::kAvx512 : hardware;
}

Result<Isa> choose_isa() {
  const char* limit = wanted_isa();
  if (limit == nullptr) {
    return detect_isa();
  }
  const auto wanted = parse_isa(limit);
  if (!wanted) {
    return Error{ErrorKind::kUsage, "XG0802", "XRUN_ISA = `" + std::string(limit) + "` is not an instruction set",
                 "one of avx2, avx512, avx512_bf16, amx"};
  }
  const Isa hardware = find_hardware();
  if (*wanted > hardware) {
    return Error{ErrorKind::kUsage, "XG0802",
                 "XRUN_ISA asks for " + std::string(limit) + ", which this processor or its kernel does not offer",
                 "XRUN_ISA=" + std::string(name_of(hardware)) + " is the most it has; without XRUN_ISA xrun chooses"};
  }
  return *wanted;
}

std::string_view name_of(Isa isa) { return kIsas[static_cast<size_t>(isa)].name; }

std::optional<Isa> parse_isa(std::string_view name) {
  for (const IsaRow& row : kIsas) {
    if (row.name == name) {
      return row.isa;
    }
  }
  return std::nullopt;
}

bool has_native_bf16(Isa isa) { return isa >= Isa::kAvx512Bf16; }

}  // namespace xrun::ops
