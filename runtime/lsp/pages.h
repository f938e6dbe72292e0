// Texts that are part of the binary, as files that an editor can open: pages of codes, and the standard library.
#pragma once

#include <string>
#include <string_view>

namespace xrun::lsp {

// Writes the text to a file of the cache (graph/os/cache_file.h), unless it is there already, and returns the file's
// URI. `name`: "std/vision.xgraph". Empty if the cache cannot be written.
std::string page_uri(const std::string& name, std::string_view text);

// The URI of the page of a code, "XG0301"; empty if there is no such page.
std::string code_uri(const std::string& code);

}  // namespace xrun::lsp
