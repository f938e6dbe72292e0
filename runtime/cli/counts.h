// Values on the command line: whole numbers such as 20000, 20_000, 20k, 1.5M, and texts that are not empty.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string_view>

namespace xrun::cli {

// Decimal or hexadecimal digits, with `_` between them for legibility; `k` or `K`, `M`, `G` and `T` multiply by powers
// of 1000, and only then may the number have a fraction. Nothing if the text is not such a number, or if the number
// does not fit or is not whole.
std::optional<int64_t> parse_count(std::string_view text);

// Makes every number option of `app` and its commands accept such counts. Rejects texts of whole numbers that are not
// counts, and empty values of any option, such as an unset variable in `-o "$OUT"`.
void check_values(CLI::App& app);

}  // namespace xrun::cli
