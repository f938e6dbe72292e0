#include "graph/base/units.h"

#include <cmath>
#include <cstdio>

namespace xrun {
namespace {

std::string print(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string grouped(int64_t count, char separator) {
  std::string digits = std::to_string(count);
  const int first = digits[0] == '-' ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first; at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, separator);
  }
  return digits;
}

}  // namespace

std::string format_bytes(Bytes bytes) {
  const double value = static_cast<double>(bytes);
  if (std::abs(value) < kKiB) {
    return std::to_string(bytes) + " B";
  }
  if (std::abs(value) < kMiB) {
    return print("%.1f KiB", value / kKiB);
  }
  return std::abs(value) < kGiB ? print("%.1f MiB", value / kMiB) : print("%.1f GiB", value / kGiB);
}

std::string format_seconds(Seconds seconds) {
  if (seconds < 1e-3) {
    return print("%.1f us", seconds * 1e6);
  }
  if (seconds < 1) {
    return print("%.1f ms", seconds * 1e3);
  }
  if (seconds < 60) {
    return print("%.1f s", seconds);
  }
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const auto part = [](int64_t n, const char* unit) { return std::to_string(n) + " " + unit; };
  if (whole < 3600) {
    return part(whole / 60, "min") + " " + part(whole % 60, "s");
  }
  if (whole < 86400) {
    return part(whole / 3600, "h") + " " + part(whole % 3600 / 60, "min");
  }
  return part(whole / 86400, "d") + " " + part(whole % 86400 / 3600, "h");
}

std::string format_count(int64_t count) { return grouped(count, ' '); }

std::string format_with_underscores(int64_t count) { return grouped(count, '_'); }

}  // namespace xrun
