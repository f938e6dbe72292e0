// Tests: tests/fault_injection/network_scripts_test.cpp, tests/runtime/comm/ranks/rank_watch_test.cpp
#include "runtime/comm/ranks/watch_rules.h"

#include <cstring>
#include <fmt/format.h>
#include <span>

namespace xrun::runtime {

WatchRules::WatchRules(int rank, std::vector<Socket> connections, WatchLimits limits,
                       std::function<std::string(const WorkReport&)> describe, const Clock& clock)
    : rank_(rank),
      limits_(limits),
      describe_(std::move(describe)),
      clock_(clock),
      beats_(static_cast<int>(connections.size()), rank, limits.silence, clock.now()) {
  for (Socket& socket : connections) {
    connections_.push_back({.socket = std::move(socket)});
  }
}

std::vector<int> WatchRules::descriptors() const {
  std::vector<int> open;
  for (const Connection& one : connections_) {
    if (one.socket.open()) {
      open.push_back(one.socket.descriptor());
    }
  }
  return open;
}

void WatchRules::turn(const WorkReport& own) {
  time_ = clock_.now();
  if (const Seconds stood = beats_.tick(time_); stood > limits_.silence) {
    stood_ = stood;
    woke_ = time_;
  }
  for (int rank = 0; rank < static_cast<int>(connections_.size()); ++rank) {
    listen_to(rank);
  }
  judge_silence();
  note_work(rank_, own);
  if (own.state == WorkReport::kHangs) {
    lose({.kind = Word::kHangs, .rank = rank_, .work = own}, rank_);
  }
  if (!lost_ && (!said_ || time_ - *said_ >= limits_.period)) {
    said_ = time_;
    say({.kind = Word::kAlive, .work = own});
  }
}

void WatchRules::end() {
  say({.kind = Word::kEnds, .work = {}});
  for (const Connection& one : connections_) {
    if (one.socket.open()) {
      one.socket.net().end_sending(one.socket.descriptor());  // data sent before will still arrive
    }
  }
}

void WatchRules::listen_to(int rank) {
  Connection& one = connections_[static_cast<size_t>(rank)];
  bool ended = false;
  while (one.socket.open() && !ended) {
    const size_t size = read_some(one.socket, std::span(one.part).subspan(one.size), ended);
    one.size += size;
    if (one.size == sizeof(Word)) {
      one.size = 0;
      Word word;
      std::memcpy(&word, one.part.data(), sizeof word);
      hear(rank, word);
    } else if (size == 0) {
      break;
    }
  }
  if (ended) {
    one.socket.close();
    if (!one.ends) {
      lose({.kind = Word::kDead, .rank = rank, .work = {}}, rank_);
    }
  }
}

void WatchRules::hear(int rank, const Word& word) {
  beats_.heard(rank, time_);
  if (word.kind == Word::kAlive) {
    note_work(rank, word.work);
  } else if (word.kind == Word::kEnds) {
    connections_[static_cast<size_t>(rank)].ends = true;
    beats_.leave(rank);
  } else if (word.kind <= Word::kHangs && word.rank >= 0 && word.rank < static_cast<int>(connections_.size())) {
    lose(word, rank);
  }
}

// Finds ranks that have been silent for too long. If all of several other ranks are silent, this rank concludes that
// its own connection is cut.
void WatchRules::judge_silence() {
  if (const auto silent = beats_.silent(time_)) {
    const bool cut_off = beats_.expected() > 1 && beats_.all_silent(time_, limits_.silence - 2 * limits_.period);
    lose({.kind = cut_off ? Word::kCutOff : Word::kSilent, .rank = cut_off ? rank_ : *silent, .work = {}}, rank_);
  }
}

void WatchRules::note_work(int rank, const WorkReport& report) {
  int32_t& state = connections_[static_cast<size_t>(rank)].state;
  if (report.state == WorkReport::kLate && state == WorkReport::kFine) {
    late_.emplace_back(rank, report);
  }
  state = report.state;
}

// Records the first loss, and reports it to the other ranks at once, since this rank stops its work.
void WatchRules::lose(const Word& loss, int seen_by) {
  beats_.leave(loss.rank);
  if (lost_) {
    return;
  }
  const bool stood_still = stood_ > 0 && time_ - woke_ < limits_.silence;
  lost_ = {.rank = stood_still ? rank_ : loss.rank, .how = "", .hangs = !stood_still && loss.kind == Word::kHangs};
  lost_->how = how_lost(loss, seen_by);
  const bool others_know = lost_->rank == rank_ && loss.kind != Word::kHangs && loss.kind != Word::kCutOff;
  if (!others_know) {
    say(loss);
  }
}

// Describes the loss. The other ranks end when they have lost this rank. So if this rank was suspended for too long,
// the losses that it finds afterwards were caused by its own suspension.
std::string WatchRules::how_lost(const Word& loss, int seen_by) const {
  if (lost_->rank == rank_ && loss.kind != Word::kHangs && loss.kind != Word::kCutOff) {
    return stood_ > 0 && time_ - woke_ < limits_.silence
               ? fmt::format("it stood still for {:.1f} s, and the others ended", stood_)
               : "the other ranks do not hear it";
  }
  switch (loss.kind) {
    case Word::kHangs:
      return describe_ ? describe_(loss.work) : "it hangs";
    case Word::kCutOff:
      return fmt::format("it heard no other rank for {:.1f} s", limits_.silence);
    case Word::kSilent:
      return fmt::format("it was silent for {:.1f} s{}", limits_.silence,
                         seen_by == rank_ ? "" : fmt::format(", as rank {} saw", seen_by));
    default:
      return fmt::format("its connection was closed{}",
                         seen_by == rank_ ? "" : fmt::format(", as rank {} saw", seen_by));
  }
}

void WatchRules::say(const Word& word) {
  for (const Connection& one : connections_) {
    if (one.socket.open()) {
      (void)write_whole(one.socket, std::as_bytes(std::span(&word, 1)));
    }
  }
}

}  // namespace xrun::runtime
