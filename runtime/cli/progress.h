// What a run shows while it goes on (CLI 6): a redrawn bar, greppable lines, or JSON events.
#pragma once

#include <memory>
#include <string>

#include "runtime/cli/console.h"
#include "runtime/events.h"

namespace xrun::cli {

// `mode`: auto (bar on a terminal, else plain), tty, plain, json (to stdout), none.
std::unique_ptr<runtime::EventSink> make_progress(const std::string& mode, const Console& console);

// "2026-01-05T10:22:31Z step=10880 epoch=8.605 loss=6.8421 ...": `seconds` since 1970.
std::string plain_line(const runtime::StepReport& step, double seconds);

// The three lines of the bar for a run of `steps` steps, `left` seconds before its end; widths fit `columns`.
struct BarState {
  runtime::StartEvent start;
  runtime::StepReport step;
  double rate = 0;  // steps a second, over the last 30 s; 0: unknown
};
std::string bar_text(const BarState& state, int columns, bool unicode);

}  // namespace xrun::cli
