// Streams between hosts keep the same pace: a stream that is far ahead of others in its exchange waits, and at least
// one stream can always continue.
#include "runtime/comm/ranks/rank_streams.h"

#include <deque>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <string>

namespace xrun::runtime {
namespace {

// Makes an exchange in which each device sends `bytes(from, to)` to each other device, and divides it for each rank.
// Every device has a rank of its own.
template <typename Size>
std::vector<DividedExchange> exchange_of_all(int devices, const std::function<bool(int, int)>& same_host, Size bytes) {
  std::vector<DividedExchange> divided;
  for (int device = 0; device < devices; ++device) {
    Exchange exchange{.device = device};
    for (int peer = 0; peer < devices; ++peer) {
      if (peer != device) {
        exchange.sends.push_back({.peer = peer, .bytes = bytes(device, peer)});
        exchange.receives.push_back({.peer = peer, .bytes = bytes(peer, device)});
      }
    }
    const RankPlaces places{.rank = device,
                            .rank_of = [](int of) { return of; },
                            .is_remote = [&, device](int rank) { return !same_host(device, rank); }};
    divided.push_back(divide_exchanges({&exchange, 1}, places)[0]);
    for (auto* streams : {&divided.back().sends, &divided.back().receives}) {
      for (Stream& stream : *streams) {
        stream.cursor.rewind();
      }
    }
  }
  return divided;
}

void pass(Stream& stream, Bytes bytes) {
  stream.cursor.advance(bytes, [](const Block&, Bytes, Bytes) {});
}

TEST(RankStreams, AStreamThatIsFarAheadOfAnotherWaits) {
  auto ranks = exchange_of_all(
      3, [](int, int) { return false; }, [](int, int) { return 1'000; });
  DividedExchange& one = ranks[0];
  Stream& first = one.sends[0];
  EXPECT_FALSE(one.is_ahead(first, 100));
  pass(first, 100);
  EXPECT_FALSE(one.is_ahead(first, 100));
  pass(first, 1);
  EXPECT_TRUE(one.is_ahead(first, 100));
  EXPECT_FALSE(one.is_ahead(one.sends[1], 100)) << "the one that is behind";
  pass(one.sends[1], 1);
  EXPECT_TRUE(one.is_ahead(first, 100)) << "nothing has been received yet";
  pass(one.receives[0], 1'000);
  EXPECT_TRUE(one.is_ahead(first, 100)) << "nothing from rank 2";
  pass(one.receives[1], 1);
  EXPECT_FALSE(one.is_ahead(first, 100));
  pass(first, 899);
  pass(one.sends[1], 901);
  EXPECT_TRUE(one.is_ahead(one.sends[1], 100)) << "the one of rank 2 is received slowly";
  pass(one.receives[1], 999);
  EXPECT_FALSE(one.is_ahead(one.sends[1], 100)) << "streams that are over hold nobody back";
}

TEST(RankStreams, StreamsWithinAHostDoNotWaitForEachOther) {
  auto ranks = exchange_of_all(
      3, [](int a, int b) { return (a < 2) == (b < 2); }, [](int, int) { return 1'000; });
  DividedExchange& one = ranks[0];
  pass(one.sends[0], 900);
  EXPECT_FALSE(one.is_ahead(one.sends[0], 100)) << "rank 1 is on this host";
  pass(one.sends[1], 900);
  EXPECT_TRUE(one.is_ahead(one.sends[1], 100)) << "rank 2 has sent nothing";
  pass(one.receives[1], 1'000);
  EXPECT_FALSE(one.is_ahead(one.sends[1], 100)) << "rank 1 has sent nothing, and holds nobody back";
}

// Streams of any sizes. At each point, any stream that may continue does so, and any message in flight may arrive next,
// until all streams have ended.
TEST(RankStreams, SomeStreamOfAnExchangeCanAlwaysContinue) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int devices = 2 + static_cast<int>(random() % 5);
    const Bytes lead = 1 + random() % 200;
    auto ranks = exchange_of_all(
        devices, [&](int a, int b) { return seed % 3 == 0 && a / 2 == b / 2; },
        [&](int from, int to) { return static_cast<Bytes>((seed * 7919 + 104'729 * from + 1'299'709 * to) % 1'000); });
    struct Sent {
      int from = 0;
      int to = 0;
      Bytes bytes = 0;
    };
    std::vector<std::deque<Sent>> under_way(
        static_cast<size_t>(devices * devices));  // messages between two ranks keep their order
    for (;;) {
      std::vector<std::function<void()>> next;
      bool over = true;
      for (int rank = 0; rank < devices; ++rank) {
        DividedExchange& one = ranks[static_cast<size_t>(rank)];
        for (Stream& stream : one.sends) {
          over = over && stream.cursor.over();
          if (!stream.cursor.over() && !one.is_ahead(stream, lead)) {
            next.emplace_back([&, rank] {
              const Bytes bytes = stream.cursor.left(1 + random() % 50);
              pass(stream, bytes);
              under_way[static_cast<size_t>(rank * devices + stream.rank)].push_back({rank, stream.rank, bytes});
            });
          }
        }
      }
      for (auto& messages : under_way) {
        if (!messages.empty()) {
          next.emplace_back([&] {
            const Sent sent = messages.front();
            messages.pop_front();
            pass(ranks[static_cast<size_t>(sent.to)].stream_from(sent.from), sent.bytes);
          });
        }
      }
      if (next.empty()) {
        ASSERT_TRUE(over) << "streams wait for one another";
        break;
      }
      next[random() % next.size()]();
    }
  }
}

}  // namespace
}  // namespace xrun::runtime
