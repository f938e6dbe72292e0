// Communication between ranks that save into one directory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/os/io.h"
#include "runtime/checkpoint/files/manifest.h"
#include "runtime/comm/peers.h"

namespace xrun::runtime {

// Checks that all ranks see the same directory: rank 0 creates a file in it, with the name of an unfinished file, all
// ranks check that they see it, and rank 0 removes it. Collective. Errors: kWorld XG0711, a rank sees another
// directory; XG0711, rank 0 cannot write there.
Status check_same_directory(const std::string& directory, Peers& peers, Io& io);

// Returns the files of all ranks; index: rank. If `peers` is null, there is one process. Collective. Errors: the error
// of any rank.
using RankFiles = std::vector<std::vector<ManifestFile>>;
Result<RankFiles> gather_files(Peers* peers, Result<std::vector<ManifestFile>> mine);

// gather_texts returns the texts of all ranks; index: rank. text_of_first returns the text of rank 0; only rank 0 calls
// `text`. If `peers` is null, there is one process. Both are collective. Errors: that of any rank.
Result<std::vector<std::string>> gather_texts(Peers* peers, Result<std::string> mine);
Result<std::string> text_of_first(Peers* peers, const std::function<Result<std::string>()>& text);

}  // namespace xrun::runtime
