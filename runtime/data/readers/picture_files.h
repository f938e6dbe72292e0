// Picture files named on a command line, or found in directories, as a source of samples for `predict`.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/readers/left_out.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// Whether the name has an extension of a picture format (runtime/formats/pictures/decode.h) and is not hidden.
bool is_picture_name(std::string_view path);
bool is_hidden_file(std::string_view path);  // whether its name begins with a dot

struct PictureList {
  std::vector<std::string> paths;
  FolderLeftOut left_out;
};

// Lists the given files in the given order. A directory is replaced by the pictures below it, in natural order
// (runtime/data/readers/natural_order.h), without those in directories of tools (runtime/data/readers/left_out.h).
// Whether a file in a directory is a picture depends on the extension of its name, or without an extension on its
// content. Errors: XG0401; XG0406 a directory without pictures.
Result<PictureList> list_pictures(const std::vector<std::string>& paths);

// Opens the list as a source. Sample i is the file paths[i], which is read when it is needed. `like` is the field of
// the model's own source that feeds its input. If that field is encoded, the file is returned unchanged. If it has
// pixels [C, H, W], the file is decoded (to grey for one channel, else RGB) and resized to H × W by antialiased
// bilinear scaling; dark-on-light pictures are not inverted. A field `label` is always 0. A warning lists the files
// that were left out. Errors: XG0401 a file cannot be read; XG0412 it is too large, or `like` is not a picture field.
Result<std::unique_ptr<Reader>> open_picture_files(PictureList pictures, const Field& like);

}  // namespace xrun::runtime
