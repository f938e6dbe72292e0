#include "runtime/checkpoint/files/shared_directory.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <span>
#include <sstream>
#include <unistd.h>

#include "graph/base/errors.h"
#include "graph/os/durable.h"
#include "runtime/checkpoint/files/directory.h"

namespace xrun::runtime {

Status check_same_directory(const std::string& directory, Peers& peers, Io& io) {
  const bool leads = peers.rank() == 0;
  const std::string tail = leads ? pending_tail() : "";
  XRUN_ASSIGN(const std::string said, peers.broadcast([&]() -> Result<std::string> {
    const std::string path = fmt::format("{}/latest{}", directory, tail);
    const int fault = leads ? write_durably(path, std::span<const std::byte>(), io) : 0;
    if (fault != 0) {
      return checkpoint_write_error(path, fault);
    }
    return fmt::format("latest{}", tail);
  }()));
  const std::string path = fmt::format("{}/{}", directory, said);
  Status seen;
  if (::access(path.c_str(), W_OK) != 0) {
    seen = world_error(
        "XG0711",
        {"{} is not the directory that {} sees under this name: {}", directory, peers.name(0), std::strerror(errno)},
        "name a directory on a file system that all hosts share: -C DIR");
  }
  seen = peers.agree(std::move(seen));
  if (leads) {
    io.unlink(path);
  }
  return seen;
}

Result<RankFiles> gather_files(Peers* peers, Result<std::vector<ManifestFile>> mine) {
  if (peers == nullptr) {
    XRUN_ASSIGN(auto own, std::move(mine));
    return RankFiles{std::move(own)};
  }
  const auto in_words = [&]() -> Result<std::string> {
    XRUN_ASSIGN(const auto own, std::move(mine));
    std::string text;
    for (const ManifestFile& file : own) {
      text += fmt::format("{} {} {}\n", file.bytes, file.xxh3, file.name);
    }
    return text;
  };
  XRUN_ASSIGN(const auto texts, peers->gather(in_words()));
  RankFiles files;
  for (const std::string& said : texts) {
    files.emplace_back();
    std::istringstream in(said);
    ManifestFile file;
    while (in >> file.bytes >> file.xxh3 && in.get() == ' ' && std::getline(in, file.name)) {
      files.back().push_back(file);
    }
  }
  return files;
}

Result<std::vector<std::string>> gather_texts(Peers* peers, Result<std::string> mine) {
  if (peers != nullptr) {
    return peers->gather(std::move(mine));
  }
  XRUN_ASSIGN(std::string own, std::move(mine));
  return std::vector{std::move(own)};
}

Result<std::string> text_of_first(Peers* peers, const std::function<Result<std::string>()>& text) {
  if (peers == nullptr) {
    return text();
  }
  return peers->broadcast(peers->rank() == 0 ? text() : Result<std::string>(std::string()));
}

}  // namespace xrun::runtime
