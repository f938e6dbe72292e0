// The names of a run's classes, kept once for all of its checkpoints: DIR/classes-XXH3.json, a JSON list of strings
// named by the XXH3-128 of its bytes. Manifests refer to it by that digest.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/base/io.h"
#include "graph/base/result.h"

namespace xrun::runtime {

// Makes the file where it is not there, durably. Gives its digest. Errors: XG0711.
Result<std::string> write_class_names(const std::string& directory, const std::vector<std::string>& names, Io& io);

// Errors: XG0710 it is missing or is not what was written; XG0713 the system does not let it be read.
Result<std::vector<std::string>> read_class_names(const std::string& directory, const std::string& digest);

// The digests of the files in a directory.
std::set<std::string> class_names_in(const std::string& directory);
// Removes the file, if it holds what its name says.
void remove_class_names(const std::string& directory, const std::string& digest, Io& io);

}  // namespace xrun::runtime
