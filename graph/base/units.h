// Types of quantities such as bytes and seconds, and their text in messages.
#pragma once

#include <cstdint>
#include <string>

namespace xrun {

using Bytes = int64_t;
using Seconds = double;
using Flops = double;

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kGiB = 1024 * kMiB;

// Allocations and arena offsets are multiples of a cache line.
inline constexpr Bytes kAlignment = 64;
constexpr Bytes align_up(Bytes bytes, Bytes to = kAlignment) { return (bytes + to - 1) / to * to; }

std::string format_bytes(Bytes bytes);               // "8.5 GiB", "93.7 MiB", "512 B"
std::string format_seconds(Seconds seconds);         // "63.4 ms", "1 min 20 s", "26 min 43 s"
std::string format_count(int64_t count);             // "24 557 632": groups of three
std::string format_with_underscores(int64_t count);  // "24_557_632": as the language writes it

}  // namespace xrun
