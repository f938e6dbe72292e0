// Finds files on disk that import a file and are not open in the editor, so that references and renames include them.
#pragma once

#include <string>
#include <vector>

#include "lang/elaborate/frontend_options.h"

namespace xrun::lsp {

// Returns the texts, by path, of model files below `folders` that may import the file `path`: those that contain its
// name and are not `open`. Links and hidden folders are skipped. The search ends after 20,000 entries, 64 files or 16
// MiB of text.
lang::Texts files_that_may_import(const std::string& path, const std::vector<std::string>& folders,
                                  const lang::Texts& open);

}  // namespace xrun::lsp
