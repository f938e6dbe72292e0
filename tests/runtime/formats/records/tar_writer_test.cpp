// Archives that are written are read back by our reader and by the system's tar.
#include "runtime/formats/records/tar_writer.h"

#include <cstdlib>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>

#include "runtime/formats/records/tar.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

TEST(TarWriter, FilesOfEverySizeAreReadBack) {
  std::vector<std::byte> bytes;
  std::vector<std::pair<std::string, std::string>> files;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{511}, size_t{512}, size_t{513}, size_t{70'000}}) {
    files.emplace_back(fmt::format("{:09}.jpg", size), std::string(size, static_cast<char>('a' + size % 7)));
  }
  files.emplace_back(std::string(kLongestTarName, 'n'), "the longest name");
  for (const auto& [name, contents] : files) {
    append_tar_file(name, std::as_bytes(std::span(contents)), bytes);
  }
  append_tar_end(bytes);
  TarMemory memory(bytes);
  TarReader reader(memory, "a.tar");
  TarMember member;
  for (const auto& [name, contents] : files) {
    const auto more = reader.next(member);
    ASSERT_TRUE(more.ok() && *more);
    EXPECT_EQ(member.name, name);
    EXPECT_EQ(member.kind, TarMember::Kind::kFile);
    ASSERT_EQ(member.size, std::ssize(contents));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()) + member.offset, contents.size()), contents);
  }
  const auto more = reader.next(member);
  EXPECT_TRUE(more.ok() && !*more);
  EXPECT_TRUE(reader.has_end_mark());
}

TEST(TarWriter, TheSystemsTarReadsTheArchive) {
  const xrun::testing::TemporaryDirectory directory;
  std::vector<std::byte> bytes;
  append_tar_file("000000000.cls", std::as_bytes(std::span(std::string_view("17"))), bytes);
  append_tar_end(bytes);
  const std::string path = directory.write("a.tar", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  ASSERT_EQ(std::system(fmt::format("cd '{}' && tar -xf a.tar", directory.path()).c_str()), 0);
  EXPECT_EQ(xrun::testing::read_file(directory.path() + "/000000000.cls"), "17");
}

}  // namespace
}  // namespace xrun::runtime
