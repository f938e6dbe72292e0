// `xrun new`: makes a directory with a model that can be trained at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

struct NewArgs {
  std::string directory;
  std::string model = "mlp";  // the name of a template
};

// A model that is part of the binary; its source is runtime/cli/templates/NAME.xgraph.
struct Template {
  std::string_view name;
  std::string_view text;
};
std::vector<Template> templates();

Outcome<int> run_new(const GlobalOptions& options, const NewArgs& args);

}  // namespace xrun::cli
