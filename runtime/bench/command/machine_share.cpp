#include "runtime/bench/command/machine_share.h"

#include <algorithm>
#include <fmt/format.h>

namespace xrun::cli {

double processors_of(const runtime::Elapsed& time, int threads, int cores) {
  const double most = time.wall * std::min(threads, std::max(cores, 1));
  return most > 0 ? std::min(1.0, time.processor / most) : 1;
}

std::string share_text(const MachineShare& share, const std::string& rates) {
  const std::string by_processor = share.processor_share > MachineShare::kMost
                                       ? ""
                                       : fmt::format("by processor time {:.0f} %", 100 * share.processor_share);
  const std::string gap = by_processor.empty() ? "" : share.is_loaded() ? "; " : ", ";
  return (share.is_loaded() ? "not known, since other programs used the processors"
                            : fmt::format("{:.0f} % of {}", 100 * share.share, rates)) +
         gap + by_processor;
}

std::string loaded_note(const MachineShare& share) {
  const std::string got =
      share.processors < 0.9
          ? fmt::format("the workers got {:.0f} % of their processors while the machine's rates were measured",
                        100 * share.processors)
          : fmt::format("the measured share of the machine's rates is {:.0f} %, so these rates were measured too low",
                        100 * share.share);
  return "the machine was loaded: " + got + "; times include that of other programs, so measure again without them";
}

}  // namespace xrun::cli
