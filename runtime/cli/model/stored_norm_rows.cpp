#include "runtime/cli/model/stored_norm_rows.h"

#include <fmt/format.h>

#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/cli/model/load.h"

namespace xrun::cli {

GlobalOptions with_stored_norm_rows(const std::string& file, const GlobalOptions& options, const CheckpointPlace& place,
                                    const Console& console) {
  const auto now = read_quietly(file, options);
  if (!now || now->earlier_norm_rows == 0) {
    return options;
  }
  const auto stored = runtime::open_checkpoint(place(now->module.train));
  if (!stored.ok() || stored->manifest.math_digest == now->module.math_digest) {
    return options;
  }
  GlobalOptions earlier = options;
  earlier.sets.push_back({"train.norm_rows", std::to_string(now->earlier_norm_rows), ""});
  const auto then = read_quietly(file, earlier);
  const std::string& digest = stored->manifest.math_digest;
  if (!then || (then->module.math_digest != digest && lang::earlier_math_digest(*then) != digest)) {
    return options;
  }
  console.note(fmt::format("note: {} was trained with norm_rows = {} and continues with it; a new run uses {}\n",
                           stored->path, now->earlier_norm_rows, now->module.train.norm_rows));
  return earlier;
}

}  // namespace xrun::cli
