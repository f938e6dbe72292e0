// The communicator of ranks over queues: bytes arrive at their places for all sizes and orders of calls, a run has the
// bits of one process, and a call that waits for a lost rank ends with its error.
#include "runtime/comm/ranks/rank_communicator.h"

#include <atomic>
#include <condition_variable>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "graph/base/errors.h"
#include "runtime/device/cpu/cpu_device.h"
#include "tests/runtime/runs/plan_product.h"
#include "tests/runtime/runs/rank_runs.h"
#include "tests/runtime/runs/rank_worlds.h"

namespace xrun::runtime {
namespace {

using ::testing::HasSubstr;
using testing::ModelOptions;
using testing::on_worlds;
using testing::PlanChoice;
using testing::Prepared;
using testing::RankOptions;
using testing::RankResult;

// Waits for calls to complete, and keeps the first error.
class Calls {
 public:
  Completion one() { return {.done = &done, .context = this}; }
  Status wait(int calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return calls_ >= calls; });
    return status_;
  }
  int calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  static void done(void* context, int32_t /*argument*/, Status status, Seconds /*moving*/) {
    Calls& calls = *static_cast<Calls*>(context);
    const std::lock_guard lock(calls.mutex_);
    ++calls.calls_;
    if (calls.status_.ok()) {
      calls.status_ = std::move(status);
    }
    calls.changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  int calls_ = 0;
  Status status_;
};

constexpr Bytes kRoom = 16 * kMiB;  // memory for the sent blocks of a device, and for the received blocks of each group

// Draws the blocks of one group between any devices: empty, of a few bytes, or of several messages. Some blocks go to
// all devices.
std::vector<Exchange> random_group(int group, int devices, std::mt19937& random) {
  std::vector<Exchange> members(static_cast<size_t>(devices));
  std::vector<Bytes> from(members.size(), 0);
  std::vector<Bytes> to(members.size(), kRoom * (group + 1));
  for (int d = 0; d < devices; ++d) {
    members[static_cast<size_t>(d)] = {.group = group, .device = d};
  }
  for (int i = 0; i < 3 * devices; ++i) {
    const size_t a = random() % members.size();
    const size_t b = random() % members.size();
    const Bytes bytes = random() % 4 == 0 ? 0 : static_cast<Bytes>(random() % (random() % 6 == 0 ? 5'000'000 : 5'000));
    const bool to_all = random() % 3 == 0;
    for (size_t d = 0; d < members.size(); ++d) {
      if ((d != b && !to_all) || from[a] + bytes > kRoom || to[d] + bytes > kRoom * (group + 2)) {
        continue;
      }
      members[a].sends.push_back({.peer = static_cast<int>(d), .offset = from[a], .bytes = bytes, .source = from[a]});
      members[d].receives.push_back({.peer = static_cast<int>(a), .offset = to[d], .bytes = bytes, .source = from[a]});
      to[d] += bytes;
    }
    from[a] += bytes;
  }
  return members;
}

// Returns the value of byte `at` of the device in this step.
std::byte value_at(int device, Bytes at, int step) {
  return static_cast<std::byte>((at * 7 + at / 253 + device * 41 + step * 17) % 251);
}

// Three devices are on two or three ranks of one or two hosts. Several groups of exchanges are in flight, and ranks
// start them in different orders. Between steps the sizes of the blocks change.
TEST(RankCommunicator, BlocksAreStoredAtTheRequestedPlaces) {
  constexpr int kDevices = 3;
  constexpr int kGroups = 4;
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<std::vector<Exchange>> groups;
    for (int group = 0; group < kGroups; ++group) {
      groups.push_back(random_group(group, kDevices, random));
    }
    const int ranks = seed % 2 == 0 ? 3 : 2;
    const auto rank_of = [ranks](int device) { return std::min(device, ranks - 1); };
    const auto body = [&](World& world) {
      std::vector<int> own;
      for (int d = 0; d < kDevices; ++d) {
        if (rank_of(d) == world.rank()) {
          own.push_back(d);
        }
      }
      const auto devices = make_cpu_devices(std::vector<int>(own.size(), 1), {}, own[0]);
      std::vector<std::unique_ptr<DeviceMemory>> memories;
      std::vector<Exchange> exchanges;
      int calls = 0;
      for (const int d : own) {
        memories.push_back(devices->device(d).map((kGroups + 1) * kRoom).value());
        for (const auto& group : groups) {
          Exchange& one = exchanges.emplace_back(group[static_cast<size_t>(d)]);
          for (auto* blocks : {&one.sends, &one.receives}) {
            calls += blocks->empty() ? 0 : 1;
            for (Block& block : *blocks) {
              block.memory = memories.back().get();
            }
          }
        }
      }
      RankCommunicator communicator(world, *devices, rank_of, exchanges);
      for (int step = 0; step < 4; ++step) {
        if (step >= 2) {  // blocks of half the size in step 2, and of the first size in step 3
          for (Exchange& exchange : exchanges) {
            for (auto* blocks : {&exchange.sends, &exchange.receives}) {
              for (size_t i = 0; i < blocks->size(); ++i) {
                const auto& group = groups[static_cast<size_t>(exchange.group)][static_cast<size_t>(exchange.device)];
                const Bytes first = (blocks == &exchange.sends ? group.sends : group.receives)[i].bytes;
                (*blocks)[i].bytes = step == 2 ? first / 2 : first;
              }
            }
          }
          communicator.resize(exchanges);
        }
        std::vector<std::byte> bytes(static_cast<size_t>(kRoom));
        for (size_t i = 0; i < own.size(); ++i) {
          for (Bytes at = 0; at < kRoom; ++at) {
            bytes[static_cast<size_t>(at)] = value_at(own[i], at, step);
          }
          memories[i]->write(0, bytes);
          memories[i]->fill(kRoom, kGroups * kRoom, std::byte{255});
        }
        std::vector<int> order(exchanges.size());
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<uint32_t>(step * 5 + world.rank())));
        Calls done;
        for (const int one : order) {
          communicator.post(one, done.one(), done.one());
        }
        ASSERT_TRUE(done.wait(calls).ok());
        EXPECT_EQ(done.calls(), calls);
        for (const Exchange& exchange : exchanges) {
          for (size_t i = 0; i < exchange.receives.size(); ++i) {
            const Block& block = exchange.receives[i];
            // The i-th block that the device sends to us is the i-th that we receive from it.
            const auto& sends = groups[static_cast<size_t>(exchange.group)][static_cast<size_t>(block.peer)].sends;
            size_t before = 0;
            for (size_t j = 0; j < i; ++j) {
              before += exchange.receives[j].peer == block.peer ? 1 : 0;
            }
            const auto sent = std::ranges::find_if(
                sends, [&](const Block& one) { return one.peer == exchange.device && before-- == 0; });
            ASSERT_NE(sent, sends.end());
            std::vector<std::byte> got(static_cast<size_t>(block.bytes));
            block.memory->read(block.offset, got);
            for (Bytes at = 0; at < block.bytes; ++at) {
              ASSERT_EQ(got[static_cast<size_t>(at)], value_at(block.peer, sent->offset + at, step))
                  << "byte " << at << " of a block of " << block.bytes << " from " << block.peer << " to "
                  << exchange.device << " in step " << step;
            }
          }
        }
        ASSERT_TRUE(world.agree(Status()).ok());
      }
    };
    on_worlds(ranks, body, seed, seed > 4);
  }
}

TEST(RankCommunicator, BroadcastsComeInTheOrderOfTheCallsOfAChannel) {
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    struct One {
      int channel = 0;
      int root = 0;
      size_t bytes = 0;
    };
    std::mt19937 random(seed);
    std::vector<One> calls;
    for (int i = 0; i < 40; ++i) {
      calls.push_back({static_cast<int>(random() % 3), static_cast<int>(random() % 3),
                       random() % 5 == 0 ? random() % 5'000'000 : random() % 50});
    }
    on_worlds(
        3,
        [&](World& world) {
          const auto devices = make_cpu_devices(std::vector{1}, {}, world.rank());
          std::vector<std::vector<std::byte>> bytes;
          RankCommunicator communicator(world, *devices, [](int device) { return device; }, {});
          // Each rank calls the channels and roots in another order, but keeps the order of the calls of each.
          std::vector<size_t> order(calls.size());
          std::iota(order.begin(), order.end(), 0U);
          const auto turn = [&](size_t i) { return (calls[i].channel * 3 + calls[i].root + 4 * world.rank()) % 9; };
          std::ranges::stable_sort(order, {}, turn);
          for (size_t i = 0; i < calls.size(); ++i) {
            const auto value = static_cast<std::byte>(calls[i].root == world.rank() ? i + 1 : 0);
            bytes.emplace_back(calls[i].bytes, value);
          }
          Calls done;
          for (const size_t i : order) {
            communicator.broadcast(calls[i].channel, calls[i].root, bytes[i], done.one());
          }
          ASSERT_TRUE(done.wait(static_cast<int>(calls.size())).ok());
          for (size_t i = 0; i < calls.size(); ++i) {
            ASSERT_EQ(bytes[i], std::vector(calls[i].bytes, static_cast<std::byte>(i + 1))) << "broadcast " << i;
          }
          ASSERT_TRUE(world.agree(Status()).ok());
        },
        seed);
  }
}

TEST(RankCommunicator, WaitsForARankThatFailedEndWithItsError) {
  on_worlds(3, [](World& world) {
    const auto devices = make_cpu_devices(std::vector{1}, {}, world.rank());
    const auto memory = devices->device(world.rank()).map(4096).value();
    std::vector<Exchange> exchanges{{.group = 1, .device = world.rank()}};
    for (int peer = 0; peer < 3; ++peer) {
      exchanges[0].sends.push_back({.peer = peer, .memory = memory.get(), .bytes = 8});
      exchanges[0].receives.push_back({.peer = peer, .memory = memory.get(), .offset = 64 + 8 * peer, .bytes = 8});
    }
    RankCommunicator communicator(
        world, *devices, [](int device) { return device; }, exchanges);
    if (world.rank() == 1) {
      world.leave(world_error("XG0711", "its disk is full", "make room"));
      return;
    }
    Calls received;
    Calls released;
    Calls broadcast;
    std::vector<std::byte> byte(1);
    communicator.post(0, received.one(), released.one());
    communicator.broadcast(0, 1, byte, broadcast.one());
    for (Calls* one : {&received, &broadcast}) {
      const Status status = one->wait(1);
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code, "XG0711");
      EXPECT_EQ(status.error().message, "rank 1 on b: its disk is full");
    }
    EXPECT_TRUE(released.wait(1).ok());
    // After an error, all further calls end with the same error.
    Calls later;
    communicator.broadcast(0, 1, byte, later.one());
    EXPECT_FALSE(later.wait(1).ok());
    const Outcome outcome = communicator.agree({});
    ASSERT_FALSE(outcome.status.ok());
    EXPECT_EQ(outcome.status.error().message, "rank 1 on b: its disk is full");
  });
}

// Memory whose addresses are invalid in other processes, like memory of a rank that has unmapped it.
class LostMemory final : public DeviceMemory {
 public:
  Bytes bytes() const override { return kMiB; }
  void read(Bytes, std::span<std::byte>) const override {}
  void write(Bytes, std::span<const std::byte>) override {}
  void fill(Bytes, Bytes, std::byte) override {}
  void copy_from(const DeviceMemory&, Bytes, Bytes, Bytes, CopyDone) override {}
  std::byte* kernel_address(Bytes) const override { return nullptr; }
  std::byte* host_address(Bytes offset) const override { return reinterpret_cast<std::byte*>(16 + offset); }
};

TEST(RankCommunicator, MemoryThatCannotBeReadEndsAllRanksWithAnError) {
  if (!PeerMemory::open(PeerMemory::own_place())) {
    GTEST_SKIP() << "this system lets no process read the memory of another one";
  }
  on_worlds(
      2,
      [](World& world) {
        LostMemory lost;
        const auto devices = make_cpu_devices(std::vector{1}, {}, world.rank());
        const auto memory = devices->device(world.rank()).map(kMiB).value();
        std::vector<Exchange> exchanges{{.group = 1, .device = world.rank()}};
        if (world.rank() == 0) {
          exchanges[0].sends.push_back({.peer = 1, .memory = &lost, .bytes = kMiB});
        } else {
          exchanges[0].receives.push_back({.peer = 0, .memory = memory.get(), .bytes = kMiB});
        }
        RankCommunicator communicator(
            world, *devices, [](int device) { return device; }, exchanges);
        Calls received;
        Calls released;
        communicator.post(0, received.one(), released.one());
        Status status = world.rank() == 0 ? released.wait(1) : received.wait(1);
        if (world.rank() == 1) {
          ASSERT_FALSE(status.ok());
          EXPECT_THAT(status.error().message, HasSubstr("the memory of rank 0 on a cannot be read: Bad address"));
        }
        const Outcome outcome = communicator.agree({.status = std::move(status)});
        ASSERT_FALSE(outcome.status.ok());
        EXPECT_EQ(outcome.status.error().code, "XG0834");
      },
      1, true);
}

// The error of one rank may arrive before another rank has made its communicator.
TEST(RankCommunicator, EveryWaitEndsWithTheErrorOfARankThatLeft) {
  on_worlds(2, [](World& world) {
    const auto devices = make_cpu_devices(std::vector{1}, {}, world.rank());
    if (world.rank() == 1) {
      const RankCommunicator communicator(world, *devices, [](int device) { return device; }, {});
      world.leave(world_error("XG0711", "its disk is full", "make room"));
      return;
    }
    EXPECT_FALSE(world.agree(Status()).ok()) << "it has come";
    const auto memory = devices->device(0).map(4096).value();
    std::vector<Exchange> exchanges{{.group = 1, .device = 0}};
    exchanges[0].receives.push_back({.peer = 1, .memory = memory.get(), .bytes = 8});
    RankCommunicator communicator(
        world, *devices, [](int device) { return device; }, exchanges);
    std::vector<std::byte> byte(1);
    Calls received;
    Calls released;
    Calls broadcast;
    communicator.post(0, received.one(), released.one());
    communicator.broadcast(0, 1, byte, broadcast.one());
    for (Calls* one : {&received, &broadcast}) {
      const Status status = one->wait(1);
      EXPECT_EQ(status.ok() ? "no error" : status.error().code, "XG0711");
    }
  });
}

TEST(RankCommunicator, PendingBroadcastsFailWhenTheCommunicatorIsDestroyed) {
  on_worlds(2, [](World& world) {
    const auto devices = make_cpu_devices(std::vector{1}, {}, world.rank());
    std::vector<std::byte> bytes(100);
    Calls done;
    {
      RankCommunicator communicator(world, *devices, [](int device) { return device; }, {});
      communicator.broadcast(7, 1 - world.rank(), bytes, done.one());
    }
    EXPECT_EQ(done.calls(), 1);
    EXPECT_FALSE(done.wait(1).ok());
    ASSERT_TRUE(world.agree(Status()).ok());
  });
}

// Runs these ranks, with sessions as the command makes them.
std::vector<RankResult> run_worlds(const Prepared& prepared, const ModelOptions& model, planner::Program program,
                                   int ranks, uint64_t seed, const std::vector<RankOptions>& options) {
  program.ranks = ranks;
  std::vector<RankResult> results(static_cast<size_t>(ranks));
  const auto body = [&](World& world) {
    RankResult& result = results[static_cast<size_t>(world.rank())];
    const auto run = [&]() -> Status {
      std::vector<int> threads;
      int first = program.devices;
      for (int d = 0; d < program.devices; ++d) {
        if (program.rank_of(d) == world.rank()) {
          threads.push_back(program.threads[static_cast<size_t>(d)]);
          first = std::min(first, d);
        }
      }
      const auto devices = make_cpu_devices(threads, {}, first);
      SessionOptions session_options{.isa = prepared.isa, .check_memory = true, .rank = world.rank(), .peers = &world};
      session_options.communicator = [&](std::span<const Exchange> exchanges) {
        return std::make_unique<RankCommunicator>(
            world, *devices, [&](int device) { return program.rank_of(device); }, exchanges);
      };
      XRUN_ASSIGN(auto session, Session::create(prepared.module, program, *devices, session_options));
      session->share(std::span(&prepared.module.train.loss[0].rows, 1));
      XRUN_TRY(run_steps(*session, model, options[static_cast<size_t>(world.rank())], result));
      XRUN_ASSIGN(result.weights, session->weights_digest());
      return {};
    };
    result.status = run();
    if (!result.status.ok()) {
      world.leave(result.status.error());
    }
  };
  on_worlds(ranks, body, seed);
  return results;
}

TEST(RankCommunicator, PlansGiveTheBitsAndTheLossesOfOneProcess) {
  constexpr uint32_t kSeed = 5;
  constexpr size_t kPlans = 10;
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16}) {
    const ModelOptions model = testing::hard_model(precision);
    const Prepared prepared = testing::prepare_for(testing::make_module(model));
    auto cases = testing::all_cases(model, {precision});
    std::erase_if(cases, [](const testing::Case& one) { return one.choice.devices == 1; });
    std::vector<PlanChoice> choices = testing::choices_in(precision, testing::cover_pairs(cases, 1, kSeed));
    ASSERT_GE(choices.size(), kPlans);
    choices.resize(kPlans);
    for (const PlanChoice& choice : choices) {
      const auto program = testing::make_program(prepared, choice);
      ASSERT_TRUE(program.ok()) << choice.text();
      const RankResult one = run_one(prepared, model, *program);
      for (int ranks = 2; ranks <= std::min(4, choice.devices); ++ranks) {
        SCOPED_TRACE(choice.text() + " on " + std::to_string(ranks) + " ranks, seed " + std::to_string(kSeed));
        const std::vector<RankOptions> options(static_cast<size_t>(ranks));
        for (const RankResult& rank : run_worlds(prepared, model, *program, ranks, kSeed, options)) {
          ASSERT_TRUE(rank.status.ok()) << rank.status.error().message;
          EXPECT_EQ(rank.weights, one.weights);
          EXPECT_EQ(rank.losses, one.losses) << "every rank has the losses of all rows";
        }
      }
    }
  }
}

struct FaultyRanks : ::testing::Test {
  FaultyRanks() : prepared(testing::prepare_for(testing::make_module(model))) {}
  std::vector<RankResult> run(const std::vector<RankOptions>& options) const {
    const auto program =
        testing::make_program(prepared, {.devices = 3, .threads = 3, .stages = 2, .micro_batches = 2, .shards = 3});
    return run_worlds(prepared, model, program.value(), 3, 3, options);
  }
  ModelOptions model = testing::hard_model();
  Prepared prepared;
};

TEST_F(FaultyRanks, ARankThatFailsEndsAllRanks) {
  const auto results = run({{.steps = 5}, {.steps = 5, .gives_up_in_step = 2}, {.steps = 5}});
  for (const RankResult& rank : results) {
    ASSERT_FALSE(rank.status.ok());
    EXPECT_THAT(rank.status.error().message, HasSubstr("this rank gave up"));
    EXPECT_EQ(rank.steps, 2);
  }
  EXPECT_EQ(results[2].status.error().message, "rank 1 on b: this rank gave up");
}

TEST_F(FaultyRanks, NonFiniteValuesOfARankEndAllRanksWithItsError) {
  const auto results = run({{.steps = 5, .fails_in_step = 1}, {.steps = 5, .fails_in_step = 1}, {.steps = 5}});
  for (const RankResult& rank : results) {
    ASSERT_FALSE(rank.status.ok());
    EXPECT_EQ(rank.status.error().kind, ErrorKind::kNonFinite);
    EXPECT_EQ(rank.status.error().message, results[0].status.error().message);
  }
}

TEST_F(FaultyRanks, AStopRequestToOneRankStopsAllAfterThatStep) {
  for (const RankResult& rank : run({{.steps = 5}, {.steps = 5}, {.steps = 5, .stops_in_step = 1}})) {
    ASSERT_TRUE(rank.status.ok()) << rank.status.error().message;
    EXPECT_TRUE(rank.stops);
    EXPECT_EQ(rank.steps, 2);
  }
}

}  // namespace
}  // namespace xrun::runtime
