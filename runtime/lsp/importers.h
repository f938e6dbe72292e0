// Files on disk that import a file and are not open in the editor: references and renames reach them, too.
#pragma once

#include <string>
#include <vector>

#include "lang/frontend_options.h"

namespace xrun::lsp {

// The texts, by path, of model files below `folders` that have the name of the file `path` in them and are not `open`;
// others cannot import it. Links and hidden folders are left out, and so is what lies beyond 20,000 entries, 64 files
// or 16 MiB of text.
lang::Texts files_that_may_import(const std::string& path, const std::vector<std::string>& folders,
                                  const lang::Texts& open);

}  // namespace xrun::lsp
