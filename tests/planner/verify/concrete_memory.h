// The memory of a concrete run (tests/planner/verify/concrete_run.h): arenas of bytes, and hashes in place of
// arithmetic.
#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <string>
#include <vector>

#include "planner/program/program.h"

namespace xrun::planner::testing {

inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9E3779B97F4A7C15U + (a << 6) + (a >> 2))) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// Bytes of an arena.
struct Place {
  int device = 0;
  Bytes begin = 0;
  Bytes bytes = 0;
};

// A description of a buffer that is equal in two programs of one plan.
inline std::string key_of(const Buffer& b) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(b.purpose), b.device, b.value.index,
                     b.param.index, b.state, b.ring, b.node.index, b.node_input, b.replica, b.head, b.head_pass,
                     b.shard);
}

class ConcreteMemory {
 public:
  // All bytes begin with values that depend on `seed`, except those of persistent buffers, which depend on key_of.
  ConcreteMemory(const Program& program, uint64_t seed) : program_(program) {
    for (const Arena& arena : program.arenas) {
      arenas_.emplace_back(static_cast<size_t>(arena.bytes));
      write({arena.device, 0, arena.bytes}, mix(seed, static_cast<uint64_t>(arena.device)));
    }
    for (const Buffer& buffer : program.buffers) {
      if (buffer.persistent) {
        write(place(buffer), std::hash<std::string>()(key_of(buffer)));
      }
    }
  }

  static Place place(const Buffer& buffer) { return {buffer.device, buffer.offset, buffer.bytes}; }
  Place place(const Operand& operand, Bytes at = 0) const {
    const Buffer& buffer = program_.buffer(operand.buffer);
    return {buffer.device, buffer.offset + operand.offset + at, operand.bytes};
  }
  uint8_t* data(const Place& place) { return arenas_[static_cast<size_t>(place.device + 1)].data() + place.begin; }

  uint64_t read(const Place& place) {
    uint64_t hash = static_cast<uint64_t>(place.bytes);
    const uint8_t* const bytes = data(place);
    for (Bytes i = 0; i < place.bytes; ++i) {
      hash = (hash ^ bytes[i]) * 0x100000001B3U;
    }
    return mix(hash, hash >> 32);
  }
  void write(const Place& place, uint64_t seed) {
    uint8_t* const bytes = data(place);
    uint64_t state = seed;
    for (Bytes i = 0; i < place.bytes; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      bytes[i] = static_cast<uint8_t>(state >> 56);
    }
  }
  // Changes each byte to a hash of it and of the bytes of the terms in the same position, in their order.
  void combine(const Place& into, const std::vector<Place>& terms) {
    for (Bytes i = 0; i < into.bytes; ++i) {
      uint64_t hash = 1;
      for (const Place& term : terms) {
        hash = mix(hash, data(term)[i]);
      }
      data(into)[i] = static_cast<uint8_t>(hash >> 40);
    }
  }

  // Returns hashes of all persistent buffers and results.
  std::map<std::string, uint64_t> results() {
    std::map<std::string, uint64_t> all;
    for (const Buffer& buffer : program_.buffers) {
      const bool softmax = buffer.purpose == Purpose::kHeadSoftmax && !program_.training;
      if (buffer.persistent || (buffer.purpose == Purpose::kResult && buffer.head_pass < 0)) {
        all[key_of(buffer)] = read(place(buffer));
      } else if (softmax) {  // the buffer is larger than its rows
        const HeadPlan& head = program_.heads[static_cast<size_t>(buffer.head)];
        const int64_t rows = buffer.head_pass < 0 ? program_.batch : head.rows;
        all[key_of(buffer)] = read({buffer.device, buffer.offset, rows * kHeadSoftmaxRow});
      }
    }
    return all;
  }

 private:
  const Program& program_;
  std::vector<std::vector<uint8_t>> arenas_;  // index: device + 1
};

}  // namespace xrun::planner::testing
