// A disk that may lose data that was not synced. Changes are made below a real directory, where the process that makes
// them sees them, and are recorded together with what syncs have made durable. When the power goes, calls fail and do
// nothing more. `lose` then leaves there what a disk may hold. A file has its synced bytes, its current bytes, a part
// of these, or zeroes. A directory has the names of the last sync with any of the changes since, as far as they fit
// together. Files with reserved space are changed in place, by writes to memory, and are not renamed: each of their
// sectors is that of the last sync or the current one.
// limits: a rename stays within one directory, and all files fit in memory
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "graph/os/io.h"

namespace xrun::testing {

class LosingIo final : public Io {
 public:
  using Random = std::mt19937_64;

  // Treats everything below `root` as durable when the object is made.
  explicit LosingIo(std::string root) : root_path_(std::move(root)), root_(scan(root_path_)) {}

  // Cuts the power at the `call`-th call from now (the first one is 1). That call and all later ones do nothing.
  void cut_at(int64_t call) { left_ = call; }
  bool is_off() const { return left_ <= 0; }
  // Makes every exchange of two names fail from now on, as on network file systems.
  void forget_exchange() { has_exchange_ = false; }
  // Makes syncs do nothing from now on, as in a process that does not call them.
  void forget_syncs() { has_syncs_ = false; }

  void lose(Random& random) {
    look_at_places(*root_, root_path_);
    fall(*root_, random);
    for (const auto& entry : std::filesystem::directory_iterator(root_path_)) {
      std::filesystem::remove_all(entry.path());
    }
    put(*root_, root_path_);
  }

  int open(const std::string& path, int flags) override {
    const std::lock_guard lock(mutex_);
    if (is_cut()) {
      return -EIO;
    }
    const int file = Io::open(path, flags);
    if (file >= 0) {
      auto node = find(path);
      if (node == nullptr) {
        node = std::make_shared<Node>();
        change(*find(parent_of(path)), {Change::kAdd, name_of(path), "", node});
      }
      if ((flags & O_TRUNC) != 0) {
        node->now.clear();
      }
      open_[file] = node;
    }
    return file;
  }
  int close(int file) override {
    const std::lock_guard lock(mutex_);
    open_.erase(file);
    const int fault = Io::close(file);  // the process's file; the disk keeps its own
    return is_cut() ? EIO : fault;
  }
  int write(int file, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    if (is_cut()) {
      return EIO;
    }
    const int fault = Io::write(file, bytes);
    if (fault == 0) {
      open_.at(file)->now.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return fault;
  }
  int truncate(int file) override {
    const std::lock_guard lock(mutex_);
    if (is_cut()) {
      return EIO;
    }
    open_.at(file)->now.clear();
    return Io::truncate(file);
  }
  int reserve(int file, int64_t bytes) override {
    const std::lock_guard lock(mutex_);
    const int fault = is_cut() ? EIO : Io::reserve(file, bytes);
    if (fault == 0) {
      open_.at(file)->is_in_place = true;
    }
    return fault;
  }
  int sync(int file) override {  // the real file is not synced, which is slow: the real disk keeps its power
    const std::lock_guard lock(mutex_);
    if (is_cut()) {
      return EIO;
    }
    if (!has_syncs_) {
      return 0;
    }
    Node& node = *open_.at(file);
    if (node.is_in_place) {
      node.now = text_of("/proc/self/fd/" + std::to_string(file));
    }
    node.synced = node.now;
    node.synced_names = node.names;
    node.changes.clear();
    return 0;
  }
  int make_directory(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    const int fault = is_cut() ? EIO : Io::make_directory(path);
    if (fault == 0) {
      auto node = std::make_shared<Node>();
      node->is_directory = true;
      change(*find(parent_of(path)), {Change::kAdd, name_of(path), "", node});
    }
    return fault;
  }
  int remove_directory(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    const int fault = is_cut() ? EIO : Io::remove_directory(path);
    if (fault == 0) {
      change(*find(parent_of(path)), {Change::kRemove, name_of(path), "", find(path)});
    }
    return fault;
  }
  int rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    const int fault = is_cut() ? EIO : Io::rename(from, to);
    if (fault == 0) {
      change(*find(parent_of(from)), {Change::kRename, name_of(from), name_of(to), find(from)});
    }
    return fault;
  }
  int exchange(const std::string& a, const std::string& b) override {
    const std::lock_guard lock(mutex_);
    const int fault = is_cut() ? EIO : has_exchange_ ? Io::exchange(a, b) : EINVAL;
    if (fault == 0) {
      change(*find(parent_of(a)), {Change::kExchange, name_of(a), name_of(b), find(a)});
    }
    return fault;
  }
  int unlink_in(int directory, const std::string& name) override {
    const std::lock_guard lock(mutex_);
    const int fault = is_cut() ? EIO : Io::unlink_in(directory, name);
    if (fault == 0 && directory != AT_FDCWD) {
      Node& parent = *open_.at(directory);
      change(parent, {Change::kRemove, name, "", parent.names.at(name)});
    } else if (fault == 0) {
      change(*find(parent_of(name)), {Change::kRemove, name_of(name), "", find(name)});
    }
    return fault;
  }

 private:
  struct Node;
  using Names = std::map<std::string, std::shared_ptr<Node>>;

  struct Change {
    enum Kind { kAdd, kRemove, kRename, kExchange } kind;
    std::string name;
    std::string other;
    std::shared_ptr<Node> node;  // the file or directory that lost the name or got it
  };

  struct Node {
    bool is_directory = false;
    bool is_in_place = false;
    std::string synced, now;    // contents of a file: at its last sync, and current
    Names synced_names, names;  // names in a directory: at its last sync, and current
    std::vector<Change> changes;
  };

  static std::string parent_of(const std::string& path) { return std::filesystem::path(path).parent_path().string(); }
  static std::string name_of(const std::string& path) { return std::filesystem::path(path).filename().string(); }

  static std::string text_of(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  static void look_at_places(Node& node, const std::string& path) {
    if (node.is_in_place) {
      node.now = text_of(path);
    }
    for (const auto& [name, child] : node.names) {
      look_at_places(*child, path + "/" + name);
    }
  }

  static std::shared_ptr<Node> scan(const std::filesystem::path& path) {
    auto node = std::make_shared<Node>();
    node->is_directory = std::filesystem::is_directory(path);
    if (!node->is_directory) {
      node->now = text_of(path);
      node->synced = node->now;
      return node;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      node->names[entry.path().filename().string()] = scan(entry.path());
    }
    node->synced_names = node->names;
    return node;
  }

  std::shared_ptr<Node> find(const std::string& path) const {
    std::shared_ptr<Node> node = root_;
    for (const auto& part : std::filesystem::path(path).lexically_relative(root_path_)) {
      const auto at = node->names.find(part.string());
      if (part != "." && at == node->names.end()) {
        return nullptr;
      }
      node = part == "." ? node : at->second;
    }
    return node;
  }

  bool is_cut() {
    left_ = std::max<int64_t>(0, left_.load() - 1);
    return left_ == 0;
  }

  static void change(Node& directory, Change change) {
    apply(change, directory.names);
    directory.changes.push_back(std::move(change));
  }

  // Applies a change if it fits the current names. It may not fit, because an earlier change may have been lost.
  static void apply(const Change& change, Names& names) {
    const auto at = names.find(change.name);
    if (change.kind == Change::kAdd) {
      names.emplace(change.name, change.node);
      return;
    }
    if (at == names.end() || at->second != change.node) {
      return;
    }
    const auto other = names.find(change.other);
    if (change.kind == Change::kRemove) {
      names.erase(at);
    } else if (change.kind == Change::kExchange && other != names.end()) {
      std::swap(at->second, other->second);
    } else if (change.kind == Change::kRename && (other == names.end() || other->second->names.empty())) {
      names[change.other] = change.node;
      names.erase(change.name);
    }
  }

  static void fall(Node& node, Random& random) {
    if (!node.is_directory) {
      node.now = node.is_in_place ? mixed(node.synced, node.now, random) : torn(node.synced, node.now, random);
      return;
    }
    // Keeps all changes of names, no changes, the first few, or any subset.
    const uint64_t way = random() % 4;
    const size_t first = way == 0 ? node.changes.size() : way == 2 ? random() % (node.changes.size() + 1) : 0;
    node.names = node.synced_names;
    for (size_t i = 0; i < node.changes.size(); ++i) {
      if (i < first || (way == 3 && random() % 2 == 0)) {
        apply(node.changes[i], node.names);
      }
    }
    for (const auto& [name, child] : node.names) {
      fall(*child, random);
    }
  }

  static std::string torn(const std::string& synced, const std::string& now, Random& random) {
    if (synced == now) {
      return now;
    }
    const bool longer = now.starts_with(synced);
    const size_t kept = longer ? synced.size() : 0;
    const size_t until = kept + random() % (now.size() - kept + 1);
    switch (random() % 4) {
      case 0:
        return synced;
      case 1:
        return now;
      case 2:
        return now.substr(0, until);
      default:
        return now.substr(0, until) + std::string(now.size() - until, '\0');
    }
  }

  static std::string mixed(std::string synced, const std::string& now, Random& random) {
    constexpr size_t kSector = 512;
    synced.resize(now.size(), '\0');
    const uint64_t way = random() % 3;  // chooses each sector: evenly, mostly synced, or mostly current
    for (size_t at = 0; at < now.size(); at += kSector) {
      const uint64_t draw = random() % 16;
      if (draw < (way == 0 ? 8 : way == 1 ? 1 : 15)) {
        synced.replace(at, kSector, now, at, kSector);
      }
    }
    return synced;
  }

  static void put(const Node& node, const std::string& path) {
    if (!node.is_directory) {
      std::ofstream(path, std::ios::binary) << node.now;
      return;
    }
    std::filesystem::create_directories(path);
    for (const auto& [name, child] : node.names) {
      put(*child, path + "/" + name);
    }
  }

  std::string root_path_;
  std::shared_ptr<Node> root_;
  std::mutex mutex_;  // calls come from several threads
  std::map<int, std::shared_ptr<Node>> open_;
  std::atomic<int64_t> left_ = INT64_MAX;
  bool has_exchange_ = true;
  bool has_syncs_ = true;
};

}  // namespace xrun::testing
