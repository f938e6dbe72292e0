// Reading the memory of another process on this host: which processes can be read, and what happens if a process has
// ended.
#include "runtime/comm/ranks/peer_memory.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace xrun::runtime {
namespace {

std::string replaced_word(const std::string& text, int word, const std::string& by) {
  size_t begin = 0;
  for (int i = 0; i < word; ++i) {
    begin = text.find(' ', begin) + 1;
  }
  return text.substr(0, begin) + by + text.substr(std::min(text.find(' ', begin), text.size()));
}

TEST(PeerMemory, ReadsThisProcess) {
  const auto memory = PeerMemory::open(PeerMemory::own_place());
  if (!memory) {
    GTEST_SKIP() << "this system lets no process read the memory of another one";
  }
  std::vector<int> there(3'000'000);
  for (size_t i = 0; i < there.size(); ++i) {
    there[i] = static_cast<int>(i * 7);
  }
  std::vector<int> here(there.size());
  EXPECT_EQ(memory->read(reinterpret_cast<uintptr_t>(there.data()), std::as_writable_bytes(std::span(here))), 0);
  EXPECT_EQ(here, there);
  EXPECT_EQ(memory->read(16, std::as_writable_bytes(std::span(here))), EFAULT);
}

TEST(PeerMemory, RefusesPlacesOfOtherProcesses) {
  const std::string place = PeerMemory::own_place();
  for (const std::string& other :
       {std::string(), std::string("nonsense"), replaced_word(place, 0, "another.4.2"), replaced_word(place, 1, "0"),
        replaced_word(place, 1, "-1"), replaced_word(place, 1, "99999999"), replaced_word(place, 2, "4096"),
        replaced_word(place, 3, std::string(64, '0'))}) {
    EXPECT_FALSE(PeerMemory::open(other)) << other;
  }
}

// A child process has the random mark by which the memory of its parent is recognised, and may read that memory.
TEST(PeerMemory, GivesAnErrorForAProcessThatHasEnded) {
  int ready[2];
  int end[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(end), 0);
  static int value = 1;
  const std::string own = PeerMemory::own_place();
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    value = 2;
    (void)!::write(ready[1], &byte, 1);
    (void)!::read(end[0], &byte, 1);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const auto memory = PeerMemory::open(replaced_word(own, 1, std::to_string(child)));
  int seen = 0;
  const int fault =
      memory ? memory->read(reinterpret_cast<uintptr_t>(&value), std::as_writable_bytes(std::span(&seen, 1))) : 0;
  ASSERT_EQ(::write(end[1], &byte, 1), 1);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  if (!memory) {
    GTEST_SKIP() << "this system lets no process read the memory of another one";
  }
  EXPECT_EQ(fault, 0);
  EXPECT_EQ(seen, 2) << "the child's, not this process's";
  EXPECT_EQ(memory->read(reinterpret_cast<uintptr_t>(&value), std::as_writable_bytes(std::span(&seen, 1))), ESRCH);
}

}  // namespace
}  // namespace xrun::runtime
