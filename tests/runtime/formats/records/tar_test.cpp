#include "runtime/formats/records/tar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "tests/support/tar_files.h"

namespace xrun::runtime {
namespace {

using namespace xrun::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = TarMember::Kind;

Result<std::vector<TarMember>> members_of(const std::string& archive) {
  TarMemory bytes(bytes_of(archive));
  TarReader tar(bytes, "a.tar");
  std::vector<TarMember> members;
  for (TarMember member;;) {
    XRUN_ASSIGN(const bool more, tar.next(member));
    if (!more) {
      return members;
    }
    members.push_back(member);
  }
}

std::vector<std::string> names_of(const std::string& archive) {
  std::vector<std::string> names;
  const auto members = members_of(archive);
  EXPECT_TRUE(members.ok()) << members.error().message;
  for (const TarMember& member : members.ok() ? *members : std::vector<TarMember>()) {
    names.push_back(member.name);
  }
  return names;
}

// Checks that an archive is rejected, and returns message and help.
std::string fault_of(const std::string& archive) {
  const auto members = members_of(archive);
  if (members.ok()) {
    return "accepted";
  }
  EXPECT_EQ(members.error().code, "XG0412");
  EXPECT_EQ(exit_code(members.error().kind), 1);
  EXPECT_THAT(members.error().message, HasSubstr("a.tar"));
  EXPECT_NE(members.error().help, "");
  return members.error().message + "; " + members.error().help;
}

TEST(Tar, MembersHaveNamesOffsetsAndSizes) {
  const std::string archive = tar_file({{"a.txt", std::string(513, 'a')}, {"b/c.txt", "bc"}, {"empty", ""}});
  const auto members = members_of(archive).value();
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[0].begin, 0);
  EXPECT_EQ(members[0].offset, 512);
  EXPECT_EQ(members[0].size, 513);
  EXPECT_EQ(members[1].name, "b/c.txt");
  EXPECT_EQ(members[1].begin, 3 * 512);
  EXPECT_EQ(archive.substr(static_cast<size_t>(members[1].offset), 2), "bc");
  EXPECT_EQ(members[2].end(), 6 * 512);
}

TEST(Tar, LongNamesOfEveryFormAreRead) {
  const std::string prefix(100, 'p'), name(90, 'n'), longer = prefix + prefix + "/" + name;
  EXPECT_THAT(names_of(tar_header({.name = name, .prefix = prefix}) + kTarEnd), ElementsAre(prefix + "/" + name));
  EXPECT_THAT(names_of(tar_header({.name = std::string(100, 'n')}) + kTarEnd), ElementsAre(std::string(100, 'n')));
  // GNU tar has times in the place of the prefix.
  EXPECT_THAT(names_of(tar_header({.name = name, .magic = std::string("ustar  \0", 8), .prefix = "123"}) + kTarEnd),
              ElementsAre(name));
  EXPECT_THAT(names_of(tar_member("././@LongLink", longer + '\0', 'L') + tar_member("cut", "") + kTarEnd),
              ElementsAre(longer));
  EXPECT_THAT(names_of(tar_member("././@LongLink", "target", 'K') + tar_member("plain", "") + kTarEnd),
              ElementsAre("plain"));
  EXPECT_THAT(names_of(tar_member("pax", pax_record("mtime", "1.5") + pax_record("path", longer), 'x') +
                       tar_member("cut", "") + tar_member("next", "") + kTarEnd),
              ElementsAre(longer, "next"))
      << "a pax header is for one member";
  EXPECT_THAT(names_of(tar_member("pax", pax_record("comment", "all"), 'g') + tar_member("one", "") + kTarEnd),
              ElementsAre("one"));
}

TEST(Tar, SizesOfEveryFormAreRead) {
  const auto size_of = [](const std::string& size) {
    const auto members = members_of(tar_header({.name = "a", .size = size}) + std::string(1024, 'x') + kTarEnd);
    return members.ok() ? (*members)[0].size : -1;
  };
  EXPECT_EQ(size_of("00000002000"), 1024);
  EXPECT_EQ(size_of("       2000 "), 1024);
  EXPECT_EQ(size_of("2000"), 1024);
  EXPECT_EQ(size_of(std::string("\x80\0\0\0\0\0\0\0\0\0\4\0", 12)), 1024) << "base 256";
  EXPECT_EQ(size_of(std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0", 12)), -1) << "negative";
  EXPECT_EQ(size_of(std::string("\x80\0\0\0\1\0\0\0\0\0\0\0", 12)), -1) << "2^56: beyond the file";
  EXPECT_EQ(size_of(std::string("\x80\0\0\1\0\0\0\0\0\0\0\0", 12)), -1) << "2^64: beyond i64";
  EXPECT_EQ(size_of("00000002008"), -1);
  EXPECT_EQ(size_of("-0000002000"), -1);
  const auto pax = members_of(tar_member("pax", pax_record("size", "1024"), 'x') + tar_header({.name = "a"}) +
                              std::string(1024, 'x') + kTarEnd);
  EXPECT_EQ(pax.value()[0].size, 1024);
  EXPECT_THAT(fault_of(tar_member("pax", pax_record("size", "-1"), 'x') + tar_member("a", "") + kTarEnd),
              HasSubstr("a damaged size"));
}

TEST(Tar, OnlyOrdinaryFilesHaveContents) {
  const std::string v7 = std::string(6, '\0');
  const auto members =
      members_of(tar_header({.name = "d", .type = '5'}) + tar_header({.name = "s", .type = '2'}) +
                 tar_header({.name = "h", .size = "00000000777", .type = '1'}) +
                 tar_header({.name = "c", .type = '3'}) + tar_header({.name = "old/", .type = '\0', .magic = v7}) +
                 tar_header({.name = "old/file", .type = '\0', .magic = v7}) + tar_member("unknown", "x", 'Q') +
                 tar_member("contiguous", "x", '7') + kTarEnd)
          .value();
  std::vector<Kind> kinds;
  for (const TarMember& member : members) {
    kinds.push_back(member.kind);
  }
  EXPECT_THAT(kinds, ElementsAre(Kind::kDirectory, Kind::kLink, Kind::kLink, Kind::kOther, Kind::kDirectory,
                                 Kind::kFile, Kind::kFile, Kind::kFile));
  EXPECT_EQ(members[2].size, 0) << "the content of a hard link is that of the other member";
}

TEST(Tar, ChecksumsOfSignedBytesAreAccepted) {
  EXPECT_THAT(names_of(tar_header({.name = "na\xC3\xAFve", .signed_sum = true}) + kTarEnd),
              ElementsAre("na\xC3\xAFve"));
}

TEST(Tar, NamesThatLeadOutOfTheArchiveAreRefused) {
  for (const std::string name : {"/etc/passwd", "../a", "a/../../b", "a/..", "..", "/"}) {
    EXPECT_THAT(fault_of(tar_member("good", "x") + tar_member(name, "x") + kTarEnd),
                HasSubstr("the member `" + name + "`, whose name leads out of the archive, at offset 1 024"));
    EXPECT_THAT(fault_of(tar_member("pax", pax_record("path", name), 'x') + tar_member("a", "") + kTarEnd),
                HasSubstr("leads out of the archive"));
  }
  EXPECT_THAT(names_of(tar_file({{"a..b/..c", ""}, {"./d", ""}, {"...", ""}})), ElementsAre("a..b/..c", "./d", "..."));
}

TEST(Tar, UnusualMembersAreRefusedWithTheReason) {
  EXPECT_THAT(fault_of(tar_member("a", "", 'S') + kTarEnd), HasSubstr("the sparse member `a` at offset 0"));
  EXPECT_THAT(fault_of(tar_member("a", "", 'M') + kTarEnd), HasSubstr("the continued member `a`"));
  EXPECT_THAT(fault_of(tar_member("x", pax_record("GNU.sparse.major", "1"), 'x') + tar_member("a", "") + kTarEnd),
              HasSubstr("the sparse member `a`"));
  EXPECT_THAT(fault_of(tar_member("g", pax_record("path", "a"), 'g') + tar_member("b", "") + kTarEnd),
              HasSubstr("a global pax header with a `path`"));
  EXPECT_THAT(fault_of(tar_member("", "") + kTarEnd), HasSubstr("without a valid name"));
  EXPECT_THAT(
      fault_of(tar_member("x", pax_record("path", std::string("a\0b", 3)), 'x') + tar_member("b", "") + kTarEnd),
      HasSubstr("without a valid name"));
  for (const std::string record :
       {"8 path=a\n", "12 path=a\n", "0 a=b\n", "99999999999999999999 a=b\n", "x a=b\n", "7 path\n", "5 a=b", "4\n"}) {
    EXPECT_THAT(fault_of(tar_member("x", record, 'x') + tar_member("a", "") + kTarEnd),
                HasSubstr("a damaged pax header"))
        << record;
  }
  EXPECT_THAT(fault_of(tar_header({.name = "x", .size = "00004000001", .type = 'L'}) + std::string(2 << 20, 'a')),
              HasSubstr("more than 1 MiB"));
  EXPECT_THAT(fault_of(""), HasSubstr("a.tar is empty"));
  EXPECT_THAT(fault_of("hello"), HasSubstr("a.tar is not a tar archive"));
  EXPECT_THAT(fault_of(std::string(2048, 'x')), HasSubstr("a.tar is not a tar archive"));
}

TEST(Tar, CompressedArchivesAreRefusedWithTheProgramThatUnpacksThem) {
  const std::vector<std::pair<std::string, std::string>> formats{{"\x1F\x8B\x08", "gunzip a.tar"},
                                                                 {"\x28\xB5\x2F\xFD", "unzstd a.tar"},
                                                                 {"\xFD\x37zXZ", "unxz a.tar"},
                                                                 {"BZh9", "bunzip2 a.tar"},
                                                                 {"\x04\x22\x4D\x18", "unlz4 a.tar"}};
  for (const auto& [magic, program] : formats) {
    EXPECT_THAT(fault_of(magic + std::string(600, 'x')), HasSubstr(program));
    EXPECT_THAT(fault_of(magic), HasSubstr(program)) << "a short file";
  }
}

TEST(Tar, ADamagedHeaderIsNotTakenForTheEnd) {
  std::string archive = tar_file({{"a", "x"}, {"b", "y"}});
  archive[1024 + 3] = '!';
  EXPECT_THAT(fault_of(archive), HasSubstr("a damaged header at offset 1 024"));
}

TEST(Tar, EveryCutIsFoundUnlessItIsBetweenTwoMembers) {
  const std::string archive = tar_member("x", pax_record("path", "first"), 'x') +
                              tar_member("a", std::string(600, 'a')) + tar_member("b", "bb") + kTarEnd;
  // Offsets after the contents of the two members, and of the header of the second one.
  constexpr size_t kFirst = 1024 + 512 + 600, kHeader = 1024 + 512 + 1024, kSecond = kHeader + 512 + 2;
  constexpr size_t kEndMark = kHeader + 1024;
  for (size_t cut = 1; cut < archive.size(); ++cut) {
    TarMemory bytes(bytes_of(std::string_view(archive).substr(0, cut)));
    TarReader tar(bytes, "a.tar");
    TarMember member;
    Result<bool> more = true;
    int count = 0;
    while (more.ok() && *more) {
      more = tar.next(member);
      count += more.ok() && *more ? 1 : 0;
    }
    EXPECT_EQ(more.ok(), (cut >= kFirst && cut <= kHeader) || cut >= kSecond) << cut;
    EXPECT_EQ(count, cut >= kSecond ? 2 : cut >= kFirst ? 1 : 0) << cut;
    EXPECT_EQ(tar.has_end_mark(), cut >= kEndMark + 512) << cut;
  }
}

// Whatever the bytes are, members that are accepted lie within them and follow one another.
TEST(Tar, DamagedArchivesGiveAnErrorOrMembersWithinTheFile) {
  const std::string archive = tar_member("x", pax_record("path", "first") + pax_record("size", "700"), 'x') +
                              tar_member("a", std::string(700, 'a')) + tar_member("L", "longer", 'L') +
                              tar_member("b", "bb") + tar_header({.name = "c", .type = '2'}) + kTarEnd;
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = archive;
    for (int flips = 0; flips <= round % 3; ++flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    for (size_t at = 0; at + 512 <= damaged.size() && round % 2 == 0; at += 512) {
      if (damaged.compare(at + 257, 5, "ustar") == 0) {
        set_checksum(damaged, at);
      }
    }
    const auto members = members_of(damaged);
    Bytes end = 0;
    for (const TarMember& member : members.ok() ? *members : std::vector<TarMember>()) {
      ASSERT_GE(member.begin, end) << "seed " << seed << ", round " << round;
      ASSERT_GE(member.size, 0);
      ASSERT_LE(member.offset + member.size, static_cast<Bytes>(damaged.size()));
      end = member.end();
    }
    accepted += members.ok() ? 1 : 0;
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 19'000);
}

}  // namespace
}  // namespace xrun::runtime
