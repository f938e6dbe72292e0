// Opens ordinary files at paths where others may have put something else: a pipe, a device, a link to another file.
#pragma once

#include <string>

namespace xrun {

enum class Links { kFollow, kRefuse };

/// Opens an ordinary file for reading. It never waits for the writer of a pipe, and reads nothing from a device.
/// @return the descriptor, or minus an errno: ESPIPE for a pipe, a socket or a device, EISDIR for a directory, ELOOP if
/// the last part of the path is a link that is not to be followed.
int open_regular(const std::string& path, Links links = Links::kFollow);

}  // namespace xrun
