// The tile configuration of AMX that this project uses: palette 1, all eight tiles whole, 16 rows of 64 bytes.
#pragma once

#include <cstdint>

namespace xrun::ops {

struct alignas(64) AmxTiles {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// A constant in memory: GCC 12 assumes that _tile_loadconfig reads only the first eight bytes, and drops stores to the
// rest of a local variable.
inline constexpr AmxTiles kAmxTiles;

}  // namespace xrun::ops
