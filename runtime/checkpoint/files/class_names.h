// Stores the names of a run's classes once for all of its checkpoints, in the file DIR/classes-XXH3.json. The file is a
// JSON list of strings. XXH3 in its name is the XXH3-128 digest of its bytes, by which manifests refer to it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/os/io.h"

namespace xrun::runtime {

// Writes the file durably unless an intact one is there, and returns its digest. Errors: XG0711.
Result<std::string> write_class_names(const std::string& directory, const std::vector<std::string>& names, Io& io);

// Reads the names in the file with this digest. Errors: XG0710 the file is missing or damaged; XG0713 it is unreadable.
Result<std::vector<std::string>> read_class_names(const std::string& directory, const std::string& digest);

// Returns the digests in the names of the files of class names in a directory.
std::set<std::string> class_names_in(const std::string& directory);
// Removes the file if its contents have the digest in its name.
void remove_class_names(const std::string& directory, const std::string& digest, Io& io);

}  // namespace xrun::runtime
