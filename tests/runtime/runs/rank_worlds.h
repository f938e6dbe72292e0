// Runs ranks as threads of this process. Each rank has a world of its own, which sends messages over queues
// (tests/support/queue_messenger.h).
#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/ranks/world.h"
#include "tests/support/queue_messenger.h"

namespace xrun::runtime::testing {

// Calls body(world) on a thread for each rank. Even ranks are on host "a" and odd ranks on host "b". With `one_host`,
// all ranks are on host "a", so they read each other's memory.
template <typename Body>
void on_worlds(Switchboard& board, int ranks, const Body& body, bool one_host = false) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&board, &body, rank, one_host] {
      auto world =
          World::join([&board, rank](std::string&) { return board.join(rank); }, one_host || rank % 2 == 0 ? "a" : "b");
      ASSERT_TRUE(world.ok()) << world.error().message;
      body(**world);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

template <typename Body>
void on_worlds(int ranks, const Body& body, uint64_t seed = 1, bool one_host = false) {
  Switchboard board(ranks, seed);
  on_worlds(board, ranks, body, one_host);
}

}  // namespace xrun::runtime::testing
