// The flags of the commands that write and read weights of other programs: `export` and `import`.
#pragma once

#include <CLI/CLI.hpp>

#include "runtime/cli/console/options.h"
#include "runtime/cli/import/import.h"

namespace xrun::cli {

void add_export_flags(CLI::App& command, ExportArgs& args);
void add_import_flags(CLI::App& command, ImportArgs& args);

}  // namespace xrun::cli
