// Results that are larger than one call of the system or of a library can write.
#include "runtime/formats/tensors/npy.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "graph/base/errors.h"
#include "graph/os/durable.h"
#include "runtime/formats/files.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using xrun::testing::read_file;
using LargeFiles = testing::Files;

constexpr FileKind kZip{.name = "NumPy archive", .code = "XG0901", .magic = "PK\x03\x04"};

// Zero bytes that need no memory as long as they are only read.
class Zeros {
 public:
  explicit Zeros(size_t bytes) : bytes_(bytes) {
    base_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(base_, MAP_FAILED);
    ::madvise(base_, bytes, MADV_HUGEPAGE);  // one page fault per 2 MiB
  }
  ~Zeros() { ::munmap(base_, bytes_); }
  Zeros(const Zeros&) = delete;
  std::span<std::byte> span() const { return {static_cast<std::byte*>(base_), bytes_}; }

 private:
  size_t bytes_;
  void* base_;
};

// A file with holes instead of zero bytes, so that it needs little disk space.
class SparseFile {
 public:
  explicit SparseFile(const std::string& path) : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600)) {}
  ~SparseFile() { ::close(file_); }
  SparseFile(const SparseFile&) = delete;
  int write(std::span<const std::byte> bytes) {
    const bool zero = bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
    if (!zero && ::pwrite(file_, bytes.data(), bytes.size(), end_) != static_cast<ssize_t>(bytes.size())) {
      return errno;
    }
    end_ += static_cast<off_t>(bytes.size());
    largest_ = std::max(largest_, bytes.size());
    return 0;
  }
  bool finish() const { return ::ftruncate(file_, end_) == 0; }
  size_t largest() const { return largest_; }

 private:
  int file_;
  off_t end_ = 0;
  size_t largest_ = 0;
};

TEST_F(LargeFiles, AnNpzOfFourGigabytesIsWrittenPieceByPiece) {
  constexpr int64_t kRows = 1'101'005;  // rows of 4096 bytes: 4.2 GiB
  const Zeros zeros(static_cast<size_t>(kRows) * 4096);
  const std::span<std::byte> rows = zeros.span();
  const size_t marks[] = {0, (size_t{1} << 31) - 1, size_t{1} << 31, size_t{1} << 32, rows.size() - 1};
  for (const size_t at : marks) {
    rows[at] = std::byte{7};
  }
  const std::vector<int64_t> labels{1, 2, 3};
  const NpyArray arrays[] = {{"embeddings", "<f4", {kRows, 1024}, rows},
                             {"labels", "<i8", {3}, std::as_bytes(std::span(labels))}};
  const std::string path = (root_ / "e.npz").string();
  SparseFile file(path);
  const Status written = write_npz(arrays, [&](std::span<const std::byte> bytes) { return file.write(bytes); });
  if (!file.finish()) {
    GTEST_SKIP() << "this file system takes no file of 4.2 GiB";
  }
  ASSERT_TRUE(written.ok()) << written.error().message;
  EXPECT_LE(file.largest(), size_t{16} << 20) << "no piece is large";

  std::vector<std::pair<std::string, Bytes>> entries;
  ASSERT_TRUE(visit_archive(path, nullptr, [&](ArchiveEntry& entry) -> Status {
                entries.emplace_back(entry.name(), entry.bytes());
                return {};
              }).ok());
  EXPECT_THAT(entries, ElementsAre(std::pair<std::string, Bytes>("embeddings.npy", kRows * 4096 + 128),
                                   std::pair<std::string, Bytes>("labels.npy", 128 + 24)));
  if (std::system("python3 -c 'import zipfile' 2>/dev/null") != 0) {
    GTEST_SKIP() << "sizes are right; Python is not there to read the bytes, too";
  }
  // zipfile compares the entry's checksum with its bytes at the end.
  const std::string script = write("look.py",
                                   "import zipfile, sys\n"
                                   "marks = {}\n"
                                   "at = -128\n"
                                   "with zipfile.ZipFile(sys.argv[1]).open('embeddings.npy') as f:\n"
                                   "  while block := f.read(1 << 24):\n"
                                   "    if at < 0: header, block, at = block[:128], block[128:], 0\n"
                                   "    if block.count(0) != len(block):\n"
                                   "      marks.update((at + i, b) for i, b in enumerate(block) if b)\n"
                                   "    at += len(block)\n"
                                   "assert header[:6] == b'\\x93NUMPY'\n"
                                   "assert marks == {int(m): 7 for m in sys.argv[2:]}, marks\n");
  std::string command = "python3 " + script + " " + path;
  for (const size_t at : marks) {
    command += " " + std::to_string(at);
  }
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(LargeFiles, AWriteLargerThanTheLimitOfASystemCallIsComplete) {
  const Zeros zeros(size_t{5} << 30);  // a call writes at most 2 GiB less a page
  const int file = system_io().open("/dev/null", O_WRONLY);
  EXPECT_EQ(system_io().write(file, zeros.span()), 0);
  system_io().close(file);
}

TEST_F(LargeFiles, AFailedResultLeavesTheOldFile) {
  const std::string path = write("e.npz", "PK\x03\x04old");
  const auto fill_with = [](int bytes, const Status& end) {
    return [bytes, end](const ByteSink& sink) {
      const std::vector<std::byte> some(static_cast<size_t>(bytes));
      sink(some);
      return end;
    };
  };
  const Error broken = content_error("XG0412", "half of it is missing", "");
  const Status refused = replace_file(path, kZip, fill_with(100, broken));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "half of it is missing");
  EXPECT_EQ(read_file(path), "PK\x03\x04old");
  const std::string full = "/dev/full";
  if (std::filesystem::exists(full)) {
    const NpyArray array{"x", "<f4", {1}, std::as_bytes(std::span(path).first(4))};
    const int file = system_io().open(full, O_WRONLY);
    const Status npz = write_npz(std::span(&array, 1), [&](auto bytes) { return system_io().write(file, bytes); });
    system_io().close(file);
    ASSERT_FALSE(npz.ok());
    EXPECT_THAT(npz.error().message, HasSubstr("No space left on device"));
  }
  ASSERT_TRUE(replace_file(path, kZip, fill_with(3, {})).ok());
  EXPECT_EQ(read_file(path), std::string(3, '\0'));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root_), {}), 1) << "nothing half-written stays";
  const std::string foreign = write("mine.npz", "mine");
  EXPECT_EQ(replace_file(foreign, kZip, fill_with(3, {})).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(read_file(foreign), "mine");
}

}  // namespace
}  // namespace xrun::runtime
