// Number literals: the exact value, the unit, and the dimension that the unit measures.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace xrun::lang {

// A type for every whole number that the lexer accepts. Larger numbers are rejected with XG0109.
__extension__ typedef __int128 Int128;
std::string to_text(Int128 value);

// The dimension that a unit measures. Quantities of different dimensions never mix.
enum class Dimension : uint8_t {
  kPlain,    // no unit
  kSize,     // bytes
  kRate,     // bytes per second
  kTime,     // seconds
  kCompute,  // floating-point operations per second
  kPower,    // watts
  kClock,    // hertz
  kSteps,    // this and the next two: lengths of training
  kEpochs,
  kSamples,
};

// One row of the table of units. A value in this unit, times scale / divisor, is the value in the base unit of the
// dimension (bytes, bytes per second, seconds, FLOP/s, watts, hertz, steps, epochs, samples).
struct UnitInfo {
  std::string_view text;  // "GiB", "Gbit/s", "epochs"
  Dimension dimension = Dimension::kPlain;
  int64_t scale = 1;
  int64_t divisor = 1;
  bool word = false;  // follows one space; other units touch the number
};

// All units; a Unit is an index into this table, 0 is "no unit".
using Unit = uint8_t;
inline constexpr Unit kNoUnit = 0;
std::span<const UnitInfo> unit_table();
const UnitInfo& info_of(Unit unit);
std::optional<Unit> find_unit(std::string_view text);  // exact spelling; "epoch" and "epochs" are rows of their own
std::string_view name_of(Dimension dimension);  // "a size", "a data rate", "a time", ...: completes "expects ..."

// A literal. `16_384` and `1.5M` are whole, `0.5`, `5e-4`, `4.0` and `10%` are not.
struct Number {
  std::string_view text;  // text in the file, without the unit: "25", "16_384", "0x4E00", "10%"
  Int128 whole = 0;       // the exact value if is_whole
  double value = 0;       // correctly rounded; with `%` and the multiplier applied, without the unit
  bool is_whole = false;
  bool is_hex = false;
  bool is_percent = false;
  bool is_guess = false;  // a fault was reported, and the number is a guess
  Unit unit = kNoUnit;

  Dimension dimension() const { return info_of(unit).dimension; }
  // The value in the base unit of its dimension: 25Gbit/s is 3.125e9.
  double in_base() const;
  // The exact value of a whole literal if the result is whole: 16GiB is 17179869184; nullopt for 3bit or 0.5GiB.
  std::optional<Int128> whole_in_base() const;
};

}  // namespace xrun::lang
