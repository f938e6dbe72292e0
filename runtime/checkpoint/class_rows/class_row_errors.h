// The errors of files of class rows.
#pragma once

#include <string_view>

#include "graph/base/result.h"

namespace xrun::runtime {

// XG0710: the file is missing, damaged, or does not belong to the checkpoint. `why` continues a sentence that begins
// with the path of the file.
Error bad_rows_file(std::string_view path, std::string_view why);
// XG0711: `path` exists and is not a file of class rows.
Error foreign_rows_file(std::string_view path);
// XG0712: another process, described by `by`, uses the file.
Error rows_file_in_use(std::string_view path, std::string_view by);
// XG0713, with the system's message for the error number `fault`.
Error unmapped_rows_file(std::string_view path, int fault);
Error unreadable_rows_file(std::string_view path, std::string_view why);

}  // namespace xrun::runtime
