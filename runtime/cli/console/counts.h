// Values on the command line: whole numbers such as 20000, 20_000, 20k, 1.5M, times, and texts that are not empty.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/base/units.h"

namespace xrun::cli {

// Parses decimal or hexadecimal digits, which may have `_` between them. A suffix `k`, `K`, `M`, `G` or `T` multiplies
// by a power of 1000; only with a suffix may the number have a fraction. Returns nullopt if the text is not such a
// number, or if its value is not whole or too large.
std::optional<int64_t> parse_count(std::string_view text);

// Parses a number with a unit of time, such as 5s, 500ms or 1.5min. Returns nullopt if the text is not such a time, or
// if the time is not more than zero.
std::optional<Seconds> parse_time(std::string_view text);

// Makes every number option of `app` and its commands accept such counts and reject other texts. Also rejects empty
// values of any option, such as an unset variable in `-o "$OUT"`.
void check_values(CLI::App& app);

}  // namespace xrun::cli
