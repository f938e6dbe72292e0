#include "runtime/checkpoint/files/class_names.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "graph/base/xxh128.h"
#include "graph/os/durable.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/manifest.h"
#include "runtime/checkpoint/files/read_file.h"
#include "runtime/formats/bounded_json.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kMost = 16 * kGiB;  // names of a hundred million classes

std::string path_of(const std::string& directory, std::string_view digest) {
  return directory + "/" + class_names_file(digest);
}

}  // namespace

Result<std::string> write_class_names(const std::string& directory, const std::vector<std::string>& names, Io& io) {
  // One name per line, so that people can read the file.
  const std::string text = nlohmann::json(names).dump(0, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const std::string digest = xxh128(std::as_bytes(std::span(text)));
  if (read_class_names(directory, digest).ok()) {
    return digest;
  }
  const std::string path = path_of(directory, digest);
  const std::string fresh = path + pending_tail();
  int fault = write_durably(fresh, std::as_bytes(std::span(text)), io);
  fault = fault == 0 ? io.rename(fresh, path) : fault;
  fault = fault == 0 ? sync_directory(directory, io) : fault;
  if (fault != 0) {
    io.unlink(fresh);
    return checkpoint_write_error(path, fault);
  }
  return digest;
}

Result<std::vector<std::string>> read_class_names(const std::string& directory, const std::string& digest) {
  const std::string path = path_of(directory, digest);
  auto read = read_text(path, kMost);
  if (!read.ok() && read.error().code == "XG0710") {
    Error missing = std::move(read).error();
    missing.help = "copy it from the directory that the run saved into";
    return missing;
  }
  XRUN_ASSIGN(const std::string text, std::move(read));
  if (xxh128(std::as_bytes(std::span(text))) != digest) {
    return damaged(path, "does not match its digest");
  }
  const auto json = parse_json(text);
  std::vector<std::string> names;
  for (const auto& name : json) {
    if (!json.is_array() || !name.is_string()) {
      return damaged(path, "is not a list of names");
    }
    names.push_back(name.get<std::string>());
  }
  return names;
}

std::set<std::string> class_names_in(const std::string& directory) {
  std::set<std::string> digests;
  std::error_code error;
  for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    if (auto digest = digest_of_class_names_file(at->path().filename().string())) {
      digests.insert(std::move(*digest));
    }
  }
  return digests;
}

void remove_class_names(const std::string& directory, const std::string& digest, Io& io) {
  const std::string path = path_of(directory, digest);
  Xxh128 hash;
  const Status read = stream_file(path, std::nullopt, [&](std::span<const std::byte> bytes) -> Status {
    hash.add(bytes);
    return {};
  });
  if (read.ok() && hash.hex() == digest) {
    remove_own_file(path, io);
  }
}

}  // namespace xrun::runtime
