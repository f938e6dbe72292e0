// All ranks receive the parts of arrays, whatever their sizes. A wait ends with an error if a rank is gone, and when it
// is cancelled.
#include "runtime/comm/all_gather.h"

#include <atomic>
#include <cstdint>
#include <gtest/gtest.h>
#include <thread>

#include "runtime/comm/local/local_communicator.h"
#include "runtime/device/cpu/cpu_device.h"
#include "tests/runtime/runs/rank_runs.h"
#include "tests/support/message_communicator.h"

namespace xrun::runtime {
namespace {

using testing::MessageCommunicator;

// Calls body(communicator, rank) on a thread for each rank.
template <typename Body>
void on_ranks(int ranks, const Body& body) {
  const auto channels = testing::connect(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      MessageCommunicator communicator(
          rank, [](int device) { return device; }, {}, channels[static_cast<size_t>(rank)]);
      body(communicator, rank);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// Parts of an array as (rank that has the part, bytes). Byte i of the whole array is a function of i and the round.
using Sizes = std::vector<std::pair<int, size_t>>;
std::byte byte_at(size_t i, int round) {
  return static_cast<std::byte>((i * 31 + i / 251 + static_cast<size_t>(round)) % 253);
}

TEST(AllGather, BringsAllPartsToAllRanks) {
  constexpr auto kMost = static_cast<size_t>(kMostBroadcast);
  const std::vector<Sizes> cases = {{{0, 5}, {1, 7}, {2, 9}},
                                    {{1, 1000}},
                                    {{2, 3}, {0, 0}, {2, 4}, {0, 11}},
                                    {},
                                    {{0, kMost}, {1, kMost + 1}, {2, 2 * kMost + 17}, {0, 3}}};
  on_ranks(3, [&](Communicator& communicator, int rank) {
    AllGather gather(communicator, 4);
    EXPECT_TRUE(gather.wait().ok()) << "nothing was begun";
    for (int round = 0; round < static_cast<int>(cases.size()); ++round) {
      const Sizes& sizes = cases[static_cast<size_t>(round)];
      size_t all = 0;
      for (const auto& [owner, size] : sizes) {
        all += size;
      }
      std::vector<std::byte> bytes(all);
      std::vector<AllGather::Part> parts;
      size_t at = 0;
      for (const auto& [owner, size] : sizes) {
        parts.push_back({owner, std::span(bytes).subspan(at, size)});
        for (size_t i = at; owner == rank && i < at + size; ++i) {
          bytes[i] = byte_at(i, round);
        }
        at += size;
      }
      gather.begin(parts);
      ASSERT_TRUE(gather.wait().ok());
      for (size_t i = 0; i < all; ++i) {
        ASSERT_EQ(bytes[i], byte_at(i, round)) << "byte " << i << " of round " << round << " on rank " << rank;
      }
    }
  });
}

// Two gathers run at once, and the ranks start them in different orders.
TEST(AllGather, GathersOnDifferentChannelsDoNotMix) {
  on_ranks(2, [&](Communicator& communicator, int rank) {
    std::vector<std::byte> first(2, std::byte{1});
    std::vector<std::byte> second(2, std::byte{2});
    AllGather one(communicator, 0);
    AllGather two(communicator, 1);
    const auto parts = [](std::vector<std::byte>& bytes, std::byte value, int own) {
      std::vector<AllGather::Part> all;
      for (int owner = 0; owner < 2; ++owner) {
        const auto at = static_cast<size_t>(owner);
        bytes[at] = owner == own ? value : std::byte{};
        all.push_back({owner, std::span(bytes).subspan(at, 1)});
      }
      return all;
    };
    for (const bool is_first : {rank == 0, rank != 0}) {
      (is_first ? one : two).begin(is_first ? parts(first, std::byte{7}, rank) : parts(second, std::byte{9}, rank));
    }
    ASSERT_TRUE(one.wait().ok());
    ASSERT_TRUE(two.wait().ok());
    EXPECT_EQ(first, std::vector(2, std::byte{7}));
    EXPECT_EQ(second, std::vector(2, std::byte{9}));
  });
}

TEST(AllGather, EndsWhenARankIsGone) {
  std::vector<std::vector<std::byte>> all(3, std::vector<std::byte>(3));  // outlives the communicators
  std::atomic<int> ended = 0;
  on_ranks(3, [&](Communicator& communicator, int rank) {
    if (rank == 1) {
      return;
    }
    auto& bytes = all[static_cast<size_t>(rank)];
    AllGather gather(communicator, 0);
    gather.begin({{0, std::span(bytes).first(1)}, {1, std::span(bytes).subspan(1, 1)}, {2, std::span(bytes).last(1)}});
    const Status status = gather.wait();
    EXPECT_EQ(status.ok() ? "no error" : status.error().message, "rank 1 is gone");
    gather.begin({{rank, bytes}});
    EXPECT_FALSE(gather.wait().ok()) << "an error is the end of it";
    ++ended;
    while (ended < 2) {  // otherwise the other rank might notice the end of this rank instead of rank 1
      std::this_thread::yield();
    }
  });
}

TEST(AllGather, EndsWhenItIsCancelled) {
  std::vector<std::vector<std::byte>> bytes(2, std::vector<std::byte>(100));  // outlives the communicators
  std::atomic<int> cancelled = 0;
  on_ranks(2, [&](Communicator& communicator, int rank) {
    auto& own = bytes[static_cast<size_t>(rank)];
    AllGather gather(communicator, 0);
    if (rank == 0) {
      gather.begin({{0, std::span(own).first(50)}, {1, std::span(own).last(50)}});
      std::thread waiting([&] {
        const Status status = gather.wait();
        ASSERT_FALSE(status.ok());
        EXPECT_EQ(status.error().kind, ErrorKind::kInterrupted);
      });
      gather.cancel();
      waiting.join();
    }
    ++cancelled;
    while (cancelled < 2) {
      std::this_thread::yield();
    }
  });
}

TEST(AllGather, IsCompleteAtOnceInOneProcess) {
  const auto devices = make_cpu_devices(std::vector{1});
  LocalCommunicator communicator(*devices, {});
  std::vector<std::byte> bytes(static_cast<size_t>(kMostBroadcast) + 5, std::byte{3});
  AllGather gather(communicator, 0);
  gather.begin({{0, bytes}});
  EXPECT_TRUE(gather.wait().ok());
  EXPECT_EQ(bytes.back(), std::byte{3});
}

}  // namespace
}  // namespace xrun::runtime
