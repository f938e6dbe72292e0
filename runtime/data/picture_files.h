// Files of directories by name, and picture files named on a command line as a source of samples for `predict`.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/left_out.h"
#include "runtime/data/reader.h"

namespace xrun::runtime {

// Whether the name has an extension of a picture format (runtime/formats/decode.h) and is not hidden.
bool is_picture_name(std::string_view path);
bool is_hidden_file(std::string_view path);  // its name begins with a dot

struct PictureList {
  std::vector<std::string> paths;
  FolderLeftOut left_out;  // of the directories
};

// The files that are named: a directory stands for the pictures below it, in natural order
// (runtime/data/natural_order.h), without those in directories of tools (runtime/data/left_out.h); all else stays as it
// is, in the order given. A file of a directory is a picture by the extension of its name; one without an extension by
// its content. Errors: XG0401; XG0406 a directory without pictures.
Result<PictureList> list_pictures(const std::vector<std::string>& paths);

// Sample i is the file paths[i], which is read when it is wanted. `like` is the field of the model's own source that
// feeds its input: an encoded field gives the file as it is; pixels [C, H, W] are decoded (grey for one channel, else
// RGB), brought to H × W by antialiased bilinear scaling, and dark-on-light pictures are not inverted. A field `label`
// is 0. What the list leaves out is a warning.
// Errors: XG0401 a file cannot be read; XG0412 it is too large, or `like` is not a picture field.
Result<std::unique_ptr<Reader>> open_picture_files(PictureList pictures, const Field& like);

}  // namespace xrun::runtime
