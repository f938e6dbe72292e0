// The `folder` reader: pictures in directories or zip archives; the class of a picture is its directory.
#pragma once

#include <memory>

#include "graph/base/stop.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// Opens pictures in the given paths: directories, zip archives, or folders inside a zip archive ("a.zip/train").
//
// Files: a picture is a file whose name has an extension of a picture format (runtime/formats/pictures/decode.h) and
// does not begin with a dot. Other files are only counted, and a warning lists them (XG0415). Directories that tools
// create (runtime/data/readers/left_out.h) are skipped at every depth. If a path has pictures in directories, pictures
// directly in the path are skipped, since they would have no class. Warnings list what was skipped.
//
// Classes: every directory that contains pictures is a class. Its name is its path below the given path. Classes are
// numbered in byte order of their names over all paths and all pictures, also those that `match` excludes, so that
// train and test sources from one archive have the same classes. If no picture is in a directory, all pictures have one
// class without a name.
//
// Samples: they are numbered path by path, and in a path in byte order of the files. The listing has the files of a
// path in natural order (runtime/data/readers/natural_order.h). Files of directories are read when they are needed,
// entries of archives when the source is opened.
//
// Fields `file` (encoded), `label`, `name`. Errors: XG0401, XG0412 (also for more than `most_pictures`), XG0413 (the
// pattern).
Result<std::unique_ptr<Reader>> open_folder(const SourceSpec& spec, StopFlag stop);
Result<std::unique_ptr<Reader>> open_folder(const SourceSpec& spec, StopFlag stop, size_t most_pictures);

// Opens the same source without the contents of archives. `read` works only for the pictures in looked_samples, and
// returns only the start of each of them.
Result<std::unique_ptr<Reader>> open_folder_header(const SourceSpec& spec, StopFlag stop);

// The default of `most_pictures`: the names of more pictures would take tens of GiB.
inline constexpr size_t kMostPictures = size_t{1} << 28;

}  // namespace xrun::runtime
