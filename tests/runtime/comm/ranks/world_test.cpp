// Exchanges between ranks: texts in rounds, errors that are passed on to all ranks, and how a rank leaves.
#include "runtime/comm/ranks/world.h"

#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "graph/base/errors.h"
#include "tests/runtime/runs/rank_worlds.h"

namespace xrun::runtime {
namespace {

using ::testing::HasSubstr;
using testing::on_worlds;

Error broken(const std::string& words) { return content_error("XG0401", {"{}", words}, "mend it"); }

// Returns a text for a rank and a round, which may be empty or several MiB long.
std::string text_of(int rank, int round) {
  std::mt19937 random(static_cast<uint32_t>(rank * 1000 + round));
  const size_t size = round % 5 == 4 ? random() % 3'000'000 : random() % 40;
  std::string text(size, '\0');
  for (size_t i = 0; i < size; i += 97) {
    text[i] = static_cast<char>(random());
  }
  return text;
}

TEST(World, AllRanksReceiveTheTextsInTheOrderOfRanks) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    on_worlds(ranks, [&](World& world) {
      for (int round = 0; round < 12; ++round) {
        const auto all = world.gather(text_of(world.rank(), round));
        ASSERT_TRUE(all.ok()) << all.error().message;
        ASSERT_EQ(all->size(), static_cast<size_t>(ranks));
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ((*all)[static_cast<size_t>(rank)], text_of(rank, round)) << "round " << round;
        }
      }
      EXPECT_EQ(world.broadcast("of " + std::to_string(world.rank())).value(), "of 0");
    });
  }
}

TEST(World, RanksHaveNamesAndAreCountedByHost) {
  on_worlds(3, [](World& world) {
    EXPECT_EQ(world.count(), 3);
    EXPECT_EQ(world.name(1), "rank 1 on b");
    EXPECT_EQ(world.spread(), "2 on a, 1 on b");
  });
}

TEST(World, AllRanksGetTheErrorOfTheLowestRank) {
  on_worlds(4, [](World& world) {
    Status mine;
    if (world.rank() == 1 || world.rank() == 3) {
      mine = broken("a file of rank " + std::to_string(world.rank()));
    }
    const Status said = world.agree(std::move(mine));
    ASSERT_FALSE(said.ok());
    EXPECT_EQ(said.error().message, "rank 1 on b: a file of rank 1");
    EXPECT_EQ(said.error().code, "XG0401");
    EXPECT_EQ(said.error().kind, ErrorKind::kContent);
    EXPECT_EQ(said.error().help, "mend it");
    EXPECT_EQ(world.tells(said.error()), world.rank() == 1);
    // Passing an error on is not a further round, so the ranks that do not pass it on are not waited for.
    if (world.rank() % 2 == 0) {
      const Status again = world.agree(said);
      ASSERT_FALSE(again.ok());
      EXPECT_EQ(again.error().message, said.error().message);
    }
    EXPECT_EQ(world.gather(std::string("after")).value().size(), 4U);
  });
}

TEST(World, EveryGatherAfterARankLeftWithAnErrorReturnsThatError) {
  on_worlds(2, [](World& world) {
    if (world.rank() == 1) {
      world.leave(broken("no disk"));
      return;
    }
    const auto first = world.gather(std::string("one"));
    ASSERT_FALSE(first.ok());
    EXPECT_EQ(first.error().message, "rank 1 on b: no disk");
    const auto second = world.gather(std::string("two"));
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().message, "rank 1 on b: no disk");
  });
}

TEST(World, ARankThatEndsBeforeTheOthersIsNotWaitedFor) {
  on_worlds(3, [](World& world) {
    if (world.rank() == 2) {
      return;
    }
    const auto said = world.gather(std::string("text"));
    ASSERT_FALSE(said.ok());
    EXPECT_EQ(said.error().code, "XG0834");
    EXPECT_EQ(said.error().message, "rank 2 on a: it ended before the other ranks");
  });
}

TEST(World, AStopRequestToOneRankStopsAll) {
  on_worlds(3, [](World& world) {
    EXPECT_FALSE(world.agree(Outcome{}).stop);
    const Outcome outcome = world.agree(Outcome{.stop = world.rank() == 1});
    EXPECT_TRUE(outcome.status.ok());
    EXPECT_TRUE(outcome.stop);
    EXPECT_FALSE(world.agree(Outcome{}).stop);
  });
}

TEST(World, ABrokenConnectionEndsAllWaits) {
  testing::Switchboard board(2);
  std::atomic<int> here = 0;
  std::atomic<bool> cut = false;
  on_worlds(board, 2, [&](World& world) {
    ++here;
    while (here < 2) {
      std::this_thread::yield();
    }
    if (world.rank() == 1) {
      board.cut("the cable is out");
      cut = true;
    }
    while (!cut) {
      std::this_thread::yield();
    }
    const auto said = world.gather(std::string("text"));
    ASSERT_FALSE(said.ok());
    EXPECT_EQ(said.error().code, "XG0834");
    EXPECT_EQ(said.error().kind, ErrorKind::kWorld);
    EXPECT_THAT(said.error().message, HasSubstr("the cable is out"));
    EXPECT_TRUE(world.tells(said.error()));
  });
}

TEST(World, AMessengerThatCannotStartIsAnError) {
  for (const std::string words : {"no PMIx server", ""}) {
    const auto world = World::join(
        [&](std::string& error) {
          error = words;
          return std::unique_ptr<Messenger>();
        },
        "a");
    ASSERT_FALSE(world.ok());
    EXPECT_EQ(world.error().code, "XG0834");
    EXPECT_THAT(world.error().message, HasSubstr(words.empty() ? "no reason was given" : words));
  }
}

TEST(World, ErrorsAreUnpackedAsTheyWerePacked) {
  Error error = broken("a\nb");
  error.kind = ErrorKind::kNonFinite;
  error.span = {.file = 3, .begin = 10, .end = 4'000'000'000U};
  error.notes = {"first", "", "third"};
  const auto same = unpack(pack(error));
  ASSERT_FALSE(same.ok());
  EXPECT_EQ(same.error().kind, error.kind);
  EXPECT_EQ(same.error().code, error.code);
  EXPECT_EQ(same.error().message, error.message);
  EXPECT_EQ(same.error().help, error.help);
  EXPECT_EQ(same.error().span.file, 3);
  EXPECT_EQ(same.error().span.begin, 10U);
  EXPECT_EQ(same.error().span.end, 4'000'000'000U);
  EXPECT_EQ(same.error().notes, error.notes);
  EXPECT_EQ(unpack(pack(std::string("a\0b", 3))).value(), std::string("a\0b", 3));
}

}  // namespace
}  // namespace xrun::runtime
