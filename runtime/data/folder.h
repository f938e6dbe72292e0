// The `folder` reader: pictures in directories or zip archives; the class is the directory that holds the file.
#pragma once

#include <memory>

#include "runtime/data/reader.h"

namespace xrun::runtime {

// Paths are directories, zip archives, or folders inside of a zip archive ("a.zip/train"). A file is a picture if its
// name has an extension of a picture format (runtime/formats/decode.h) and does not begin with a dot; other files are
// counted, and a warning names them (XG0415). Directories of tools (runtime/data/left_out.h) are skipped at every
// depth; so are pictures directly in a path if it has other pictures in directories. Warnings name both.
// Classes are the directories that contain pictures, as paths below the given path, numbered in byte order over all
// paths and all pictures, including those that `match` excludes: so one archive gives train and test equal classes. If
// no picture is in a directory, all are of one class without a name. Samples are numbered path by path, files in byte
// order; the listing has the files of a path in natural order (runtime/data/natural_order.h). Files of directories are
// read when they are needed, entries of archives when the source is opened.
//
// Fields `file` (encoded), `label`, `name`. Errors: XG0401, XG0412 (also: more than `most_pictures`), XG0413 (the
// pattern).
Result<std::unique_ptr<Reader>> open_folder(const SourceSpec& spec, StopFlag stop);
Result<std::unique_ptr<Reader>> open_folder(const SourceSpec& spec, StopFlag stop, size_t most_pictures);

// Does the same without the contents of archives: `read` returns only the start of pictures that looked_samples names.
Result<std::unique_ptr<Reader>> open_folder_header(const SourceSpec& spec, StopFlag stop);

// The names of this many pictures alone take tens of GiB.
inline constexpr size_t kMostPictures = size_t{1} << 28;

}  // namespace xrun::runtime
