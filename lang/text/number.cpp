#include "lang/text/number.h"

#include <iterator>

#include "graph/base/check.h"

namespace xrun::lang {
namespace {

constexpr int64_t kKilo = 1000;
constexpr int64_t kMega = 1000 * kKilo;
constexpr int64_t kGiga = 1000 * kMega;
constexpr int64_t kTera = 1000 * kGiga;
constexpr int64_t kKibi = 1024;
constexpr int64_t kMebi = 1024 * kKibi;
constexpr int64_t kGibi = 1024 * kMebi;
constexpr int64_t kTebi = 1024 * kGibi;

constexpr UnitInfo kUnits[] = {
    {"", Dimension::kPlain},
    {"B", Dimension::kSize, 1},
    {"KB", Dimension::kSize, kKilo},
    {"MB", Dimension::kSize, kMega},
    {"GB", Dimension::kSize, kGiga},
    {"TB", Dimension::kSize, kTera},
    {"KiB", Dimension::kSize, kKibi},
    {"MiB", Dimension::kSize, kMebi},
    {"GiB", Dimension::kSize, kGibi},
    {"TiB", Dimension::kSize, kTebi},
    {"bit", Dimension::kSize, 1, 8},
    {"Kbit", Dimension::kSize, kKilo, 8},
    {"Mbit", Dimension::kSize, kMega, 8},
    {"Gbit", Dimension::kSize, kGiga, 8},
    {"B/s", Dimension::kRate, 1},
    {"KB/s", Dimension::kRate, kKilo},
    {"MB/s", Dimension::kRate, kMega},
    {"GB/s", Dimension::kRate, kGiga},
    {"TB/s", Dimension::kRate, kTera},
    {"KiB/s", Dimension::kRate, kKibi},
    {"MiB/s", Dimension::kRate, kMebi},
    {"GiB/s", Dimension::kRate, kGibi},
    {"TiB/s", Dimension::kRate, kTebi},
    {"bit/s", Dimension::kRate, 1, 8},
    {"Kbit/s", Dimension::kRate, kKilo, 8},
    {"Mbit/s", Dimension::kRate, kMega, 8},
    {"Gbit/s", Dimension::kRate, kGiga, 8},
    {"ns", Dimension::kTime, 1, kGiga},
    {"us", Dimension::kTime, 1, kMega},
    {"ms", Dimension::kTime, 1, kKilo},
    {"s", Dimension::kTime, 1},
    {"min", Dimension::kTime, 60},
    {"h", Dimension::kTime, 3600},
    {"d", Dimension::kTime, 86400},
    {"GFLOPS", Dimension::kCompute, kGiga},
    {"TFLOPS", Dimension::kCompute, kTera},
    {"PFLOPS", Dimension::kCompute, 1000 * kTera},
    {"W", Dimension::kPower, 1},
    {"GHz", Dimension::kClock, kGiga},
    {"step", Dimension::kSteps, 1, 1, true},
    {"steps", Dimension::kSteps, 1, 1, true},
    {"epoch", Dimension::kEpochs, 1, 1, true},
    {"epochs", Dimension::kEpochs, 1, 1, true},
    {"sample", Dimension::kSamples, 1, 1, true},
    {"samples", Dimension::kSamples, 1, 1, true},
};

}  // namespace

std::span<const UnitInfo> unit_table() { return kUnits; }

const UnitInfo& info_of(Unit unit) {
  XRUN_CHECK(unit < std::size(kUnits), "a unit is an index of the table");
  return kUnits[unit];
}

std::optional<Unit> find_unit(std::string_view text) {
  for (size_t i = 1; i < std::size(kUnits); ++i) {
    if (kUnits[i].text == text) {
      return static_cast<Unit>(i);
    }
  }
  return std::nullopt;
}

std::string_view name_of(Dimension dimension) {
  constexpr std::string_view kNames[] = {"a plain number",
                                         "a size",
                                         "a data rate",
                                         "a time",
                                         "a rate of floating-point operations",
                                         "a power",
                                         "a clock rate",
                                         "a number of steps",
                                         "a number of epochs",
                                         "a number of samples"};
  return kNames[static_cast<size_t>(dimension)];
}

std::string to_text(Int128 value) {
  if (value == 0) {
    return "0";
  }
  std::string digits;
  for (Int128 rest = value; rest != 0; rest /= 10) {
    const auto digit = static_cast<int>(rest % 10);
    digits.insert(digits.begin(), static_cast<char>('0' + (digit < 0 ? -digit : digit)));
  }
  return value < 0 ? "-" + digits : digits;
}

double Number::in_base() const {
  // On x86 a long double has 64 bits of precision, so most whole numbers times a scale are exact, and the only rounding
  // is the last one.
  const UnitInfo& info = info_of(unit);
  const long double exact = is_whole ? static_cast<long double>(whole) : static_cast<long double>(value);
  return static_cast<double>(exact * static_cast<long double>(info.scale) / static_cast<long double>(info.divisor));
}

std::optional<Int128> Number::whole_in_base() const {
  Int128 scaled = 0;
  const UnitInfo& info = info_of(unit);
  if (!is_whole || __builtin_mul_overflow(whole, static_cast<Int128>(info.scale), &scaled) ||
      scaled % info.divisor != 0) {
    return std::nullopt;
  }
  return scaled / info.divisor;
}

}  // namespace xrun::lang
