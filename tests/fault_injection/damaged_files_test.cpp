// Checkpoint files that were damaged by a disk, cut off, or exchanged. Loading must reject each of them.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "runtime/checkpoint/files/manifest.h"
#include "tests/fault_injection/runs.h"
#include "tests/runtime/checkpoint/checkpoint_model.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;
using testing::CheckpointModel;

constexpr int64_t kFlips = 100'000;
constexpr int64_t kExchanges = 10'000;

class DamagedFiles : public testing::CheckpointDirectory {
 protected:
  // Saves two steps with optimizer states. The head has three shards with several ranges of rows each.
  void SetUp() override {
    testing::CheckpointDirectory::SetUp();
    CheckpointModel model(3, 1'500);
    model.fill(1);
    ASSERT_TRUE(store()->save(model.state(), 5, 320).ok());
    model.fill(2);
    ASSERT_TRUE(store()->save(model.state(), 10, 640).ok());
    const auto manifest = parse_manifest(read(step(10) + "manifest.json"), "manifest.json");
    ASSERT_TRUE(manifest.ok());
    for (const ManifestFile& file : manifest->files) {
      files_.push_back(file.name);
    }
    ASSERT_GE(files_.size(), 4u);
    target_.fill(99);
    before_ = target_.contents();
  }

  std::string step(int number) const {
    return root_ + (number < 10 ? "/step-00000" : "/step-0000") + std::to_string(number) + "/";
  }

  // Expects that the load is rejected. `what` names the damage in the message of a failure. With `may_be_later`, the
  // damage may make the manifest look like one of a later format.
  void expect_refused(const std::string& what, bool may_be_later = false) {
    const Status loaded = load(root_, target_.state(), true);
    ASSERT_FALSE(loaded.ok()) << what;
    EXPECT_TRUE(loaded.error().code == "XG0710" || (may_be_later && loaded.error().code == "XG0714"))
        << what << ": " << loaded.error().code << " " << loaded.error().message;
    EXPECT_EQ(target_.contents(), before_) << what << ": the state was changed before the damage was found";
  }
  // Flips one bit of byte `at` of a file, and expects that the load is rejected.
  void expect_flip_refused(const std::string& name, int64_t at, int bit) {
    std::fstream file(step(10) + name, std::ios::binary | std::ios::in | std::ios::out);
    const auto flip = [&] {
      char byte = 0;
      file.seekg(at).read(&byte, 1);
      byte = static_cast<char>(byte ^ (1 << bit));
      file.seekp(at).write(&byte, 1).flush();
    };
    flip();
    expect_refused("bit " + std::to_string(bit) + " of byte " + std::to_string(at) + " of " + name,
                   name == "manifest.json");
    flip();
  }
  void expect_loaded() {
    CheckpointModel sound(1, 1'500);
    const Status loaded = load(root_, sound.state(), true);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  }

  std::vector<std::string> files_;
  CheckpointModel target_{2, 1'500};
  std::map<std::string, std::vector<std::byte>> before_;
};

// The 8 bytes before a header, which hold its length, count as a part of it.
TEST_F(DamagedFiles, AreRefusedForAnyFlippedBitOfTheManifestOrAHeader) {
  std::vector<std::pair<std::string, int64_t>> bytes;  // file and offset
  const auto add = [&](const std::string& name, int64_t length) {
    for (int64_t at = 0; at < length; ++at) {
      bytes.emplace_back(name, at);
    }
  };
  add("manifest.json", static_cast<int64_t>(fs::file_size(step(10) + "manifest.json")));
  int64_t headers = 0;
  for (const std::string& name : files_) {
    if (name.ends_with(".safetensors")) {
      int64_t length = 0;
      std::ifstream(step(10) + name, std::ios::binary).read(reinterpret_cast<char*>(&length), sizeof length);
      add(name, static_cast<int64_t>(sizeof length) + length);
      ++headers;
    }
  }
  ASSERT_GE(headers, 4);
  const auto flips = xrun::testing::some_of(200, static_cast<int64_t>(8 * bytes.size()));
  for (const int64_t flip : flips) {
    const auto& [name, at] = bytes[static_cast<size_t>((flip - 1) / 8)];
    expect_flip_refused(name, at, static_cast<int>((flip - 1) % 8));
    ASSERT_FALSE(HasFailure());
  }
  expect_loaded();
  std::cout << flips.size() << " of " << 8 * bytes.size() << " bits of the manifest and " << headers << " headers\n";
}

TEST_F(DamagedFiles, AreRefusedForARandomFlippedBit) {
  const int64_t flips = xrun::testing::fault_runs(300, kFlips);
  Random random(xrun::testing::fault_seed());
  for (int64_t i = 0; i < flips; ++i) {
    const std::string& name = files_[random() % files_.size()];
    const auto at = static_cast<int64_t>(random() % fs::file_size(step(10) + name));
    expect_flip_refused(name, at, static_cast<int>(random() % 8));
    ASSERT_FALSE(HasFailure());
  }
  expect_loaded();
  std::cout << flips << " flipped bits in " << files_.size() << " files\n";
}

// Exchanges a part of file `a` with a part of the same length of file `b`, which may be the same file.
void exchange_parts(const std::string& a, std::string& b, Random& random) {
  const size_t bytes = 1 + random() % std::min<size_t>(4'096, std::min(a.size(), b.size()) / 2);
  const size_t from = random() % (a.size() - bytes + 1);
  const size_t to = random() % (b.size() - bytes + 1);
  b.replace(to, bytes, a.substr(from, bytes));
}

TEST_F(DamagedFiles, AreRefusedIfCutOrExchanged) {
  const int64_t exchanges = xrun::testing::fault_runs(200, kExchanges);
  Random random(xrun::testing::fault_seed());
  std::map<std::string, std::string> good;
  std::map<std::string, std::string> older;
  for (const std::string& name : files_) {
    good[name] = read(step(10) + name);
    older[name] = read(step(5) + name);
  }
  int64_t same = 0;
  for (int64_t i = 0; i < exchanges; ++i) {
    const std::string& a = files_[random() % files_.size()];
    const std::string& b = files_[random() % files_.size()];
    std::map<std::string, std::string> bad = good;
    const auto kind = random() % 6;
    switch (kind) {
      case 0:
        std::swap(bad[a], bad[b]);
        break;
      case 1:
        bad[a].resize(random() % bad[a].size());
        break;
      case 2:
        bad[a].append(1 + random() % 100, static_cast<char>(random()));
        break;
      case 3:
        bad[a] = older[a];
        break;
      case 4:
        exchange_parts(bad[a], bad[b], random);
        break;
      default:
        exchange_parts(older[a], bad[a], random);
    }
    if (bad == good) {
      ++same;
      continue;
    }
    const auto put = [&](const std::map<std::string, std::string>& files) {
      for (const std::string* name : {&a, &b}) {
        write(step(10) + *name, files.at(*name));
      }
    };
    put(bad);
    expect_refused("exchange " + std::to_string(i) + " of kind " + std::to_string(kind) + ": " + a + ", " + b);
    put(good);
    ASSERT_FALSE(HasFailure());
  }
  expect_loaded();
  EXPECT_LT(same, exchanges / 2);
  std::cout << exchanges - same << " files were cut or exchanged\n";
}

}  // namespace
}  // namespace xrun::runtime
