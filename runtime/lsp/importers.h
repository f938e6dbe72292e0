// Finds files on disk that import a file and are not open in the editor, so that references and renames include them.
#pragma once

#include <string>
#include <vector>

#include "lang/frontend_options.h"

namespace xrun::lsp {

// The texts, by path, of model files below `folders` that contain the name of the file `path` and are not `open`; other
// files cannot import it. Links and hidden folders are left out, and so is anything beyond 20,000 entries, 64 files or
// 16 MiB of text.
lang::Texts files_that_may_import(const std::string& path, const std::vector<std::string>& folders,
                                  const lang::Texts& open);

}  // namespace xrun::lsp
