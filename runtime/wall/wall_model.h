// The durations of a program that runs by the clock, as plain data: the sleeps of its computations, and the tokens that
// computations and messages take from buckets. All times are those of the clock.
#pragma once

#include <array>
#include <vector>

#include "graph/base/units.h"
#include "planner/program/machine.h"
#include "planner/program/program.h"

namespace xrun::runtime {

// Tokens that a computation takes from a bucket while it runs.
struct TokenUse {
  size_t bucket = 0;
  double rate = 0;  // tokens for each second of the computation
};

// A computation. It takes longer than `time` if a bucket gives its tokens more slowly.
struct WallWork {
  Seconds time = 0;
  std::vector<TokenUse> uses;
};

// The bytes that a member of an exchange sends to another node. Messages of one route are sent one after the other.
struct WallMessage {
  int from = 0;         // exchange that sends
  std::vector<int> to;  // exchanges that receive; the message begins when `from` and the first of them are posted
  double bytes = 0;
  size_t route = 0;                    // the pair of ranks
  std::array<size_t, 2> buckets = {};  // links of the sending and of the receiving node
};

// A member of an exchange.
struct WallExchange {
  std::vector<int> senders;  // exchanges from which it receives, in ascending order; may contain itself
  Seconds least = 0;         // the exchange takes at least this time after this member and its senders are posted
};

struct WallModel {
  std::vector<double> rates;            // tokens a second of each bucket
  std::vector<WallWork> work;           // index: instruction; exchanges have no work
  std::vector<WallExchange> exchanges;  // the instructions that communicate, in program order
  std::vector<WallMessage> messages;
  size_t routes = 0;
  Seconds latency = 0;  // time of a message after its last byte has left
};

// Adds the exchanges of a program to a model, with a bucket for each direction of the links of a machine's nodes.
// Without a known rate of the network, an exchange takes its predicted time (Instruction::predicted).
//   slow  seconds of the clock for a second of the program
void add_exchanges(const planner::Program& program, const planner::Machine& machine, double slow, WallModel& model);

}  // namespace xrun::runtime
