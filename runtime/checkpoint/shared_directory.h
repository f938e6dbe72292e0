// Exchanges between ranks that save into one directory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/base/io.h"
#include "graph/base/result.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/comm/peers.h"

namespace xrun::runtime {

// Collective: checks that all ranks see the directory of rank 0. Rank 0 creates a file in it, named like an unfinished
// one, and removes it. Errors: kWorld XG0711, a rank sees another directory; XG0711, rank 0 cannot write there.
Status check_same_directory(const std::string& directory, Peers& peers, Io& io);

// Collective: the files of all ranks; index: rank. If `peers` is null, those of the one process. Errors: that of any
// rank.
using RankFiles = std::vector<std::vector<ManifestFile>>;
Result<RankFiles> gather_files(Peers* peers, Result<std::vector<ManifestFile>> mine);

// Collective: the texts of all ranks (index: rank), and the text of rank 0. If `peers` is null, there is one process.
// Errors: that of any rank.
Result<std::vector<std::string>> gather_texts(Peers* peers, Result<std::string> mine);
Result<std::string> text_of_first(Peers* peers, const std::function<Result<std::string>()>& text);

}  // namespace xrun::runtime
