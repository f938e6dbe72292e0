// Corrections of the estimates of candidates by the programs that were made of others.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/search/fit.h"

namespace xrun::planner {

// Candidates with equal numbers of stages, devices of a replica, replicas and devices of heads are of one kind if both
// or neither have another pipeline than GPipe and 1F1B.
using CandidateKind = std::tuple<int, int, int, int, bool>;
CandidateKind kind_of(const Setting& setting);
inline bool is_plain(const CandidateKind& kind) { return std::get<4>(kind); }
// Whether a setting needs less memory than another one of its kind and pipeline.
bool is_leaner(const Setting& one, const Setting& other);

// The programs by which it is known how much memory a candidate needs beyond its estimate.
enum class Known { kNothing, kOfOthers, kOfKind, kOwn };

// A candidate of which no program has been made yet.
struct OpenCandidate {
  const Candidate* candidate;
  std::optional<Candidate> decided = {};  // the candidate with all its cuts, and within the limits
  Known known = Known::kNothing;          // the knowledge by which `decided` is within the limits
  int learned = 0;                        // the number of programs that were known then
  StageLimits limits = {};                // the limits of the partition for `decided`
  const OpenCandidate* twin = nullptr;    // Corrections::learn_from_twin
  std::optional<Uncounted> own = {};      // the need of its last program, which exceeded the limits
  int failures = 0;                       // the number of these programs
  bool closed = false;                    // it was made, or is not within the limits
  bool fits = false;                      // it was made, and its program is within the limits
  const Candidate& now() const { return decided ? *decided : *candidate; }
};

// A program that was made corrects the estimates of other candidates:
//   - by the ratio of its time to its estimate. For a kind of which there is no program, the least ratio of all counts.
//     If the program lacks memory for logits, head passes over fewer rows may keep more of them, so that the ratio
//     counts only for passes of as many rows or more.
//   - by the memory that it needs beyond the estimate of the partition. If a candidate would exceed the limits with as
//     much, the partition gets the limits without these bytes, and the candidate the time of its new cuts. A head needs
//     less in passes over fewer rows, so a program counts only for passes of as many rows or more. Kinds without such a
//     program are assumed to need a part of what the program that needs least does: half or, if programs of n kinds
//     have head passes of as many rows on as many devices, all but 1/2^n of the least need of these.
class Corrections {
 public:
  // Both arguments must outlive the object.
  Corrections(const SearchInput& input, const MemoryLimits& limits) : input_(input), limits_(limits) {}

  // `estimate`: the least estimated step of the candidate of which the program was made. `lacks_logits`: whether there
  // is too little memory to keep all logits.
  void learn_time(const Fitted& made, Seconds estimate, bool lacks_logits);
  void learn_memory(const Fitted& made);
  // Learns from a program of `one` that is not within the limits.
  void learn_failure(const Fitted& made, OpenCandidate& one) const;

  Seconds step(const OpenCandidate& one) const;
  // Whether the candidate must be decided again before programs of it are made: it is rough, or exceeds the limits.
  bool is_outdated(const OpenCandidate& one) const;
  // Other pipelines hold at least as many micro-batches as 1F1B. If limits exclude a candidate with another one, they
  // add at least as much to its step as to that of its twin with 1F1B among `open`, which is decided first. Returns
  // whether the candidate is slower than was known, or is closed: because its twin is not within the limits or, since
  // to find cuts within limits takes long, after eight candidates with other pipelines. `open` must keep its elements
  // where they are. Errors: those of decide.
  Result<bool> learn_from_twin(OpenCandidate& one, std::vector<OpenCandidate>& open);
  // Returns the candidate with another pipeline than GPipe and 1F1B whose estimate without limits is least and less
  // than `best`, among those that limits exclude and that are not in `seen`; null if there is none, if hints decide
  // what runs again, or if `seen` has two candidates.
  const Candidate* fastest_without_limits(const std::vector<OpenCandidate>& open,
                                          const std::set<const Candidate*>& seen, Seconds best) const;
  // Decides the candidate again. It is closed if it has no cuts within the limits. Errors: those of decide.
  Status renew(OpenCandidate& one) const;

 private:
  // Returns what limits add to the step of the twin of a candidate that was not decided within limits itself.
  static Seconds added_by_limits(const OpenCandidate& one);
  struct Kind {
    std::map<int64_t, double> ratios;        // the least ones; key: rows of a head pass, or 0 if all logits are kept
    std::map<int64_t, Uncounted> uncounted;  // the need of the last program; key: rows of a head pass
  };
  struct Excess {
    Known known = Known::kNothing;  // kNothing: no limit is exceeded, as far as is known
    StageLimits limits;             // the limits of the partition
  };
  // Programs of different kinds whose head passes have equal rows and devices.
  struct EqualHeads {
    std::set<CandidateKind> kinds;
    Uncounted least;  // the need of the program that needs least
  };
  // Returns the rows of a head pass; 0 without heads.
  int64_t head_rows(const Setting& setting) const;
  Excess excess_of(const OpenCandidate& one) const;
  // Returns the need of a program of the kind whose head passes have at most as many rows; null if there is none.
  const Uncounted* uncounted_of_kind(const Setting& setting) const;

  const SearchInput& input_;
  const MemoryLimits& limits_;
  std::map<CandidateKind, Kind> kinds_;
  std::map<std::pair<int, int64_t>, EqualHeads> heads_;  // key: Setting::head_devices, rows of a head pass
  int learned_ = 0;                                      // the number of programs whose memory is known
  int limited_ = 0;                                      // candidates that learn_from_twin has left to renew
  double ratio_ = HUGE_VAL;
  std::optional<Uncounted> uncounted_;  // the least need of all programs
};

}  // namespace xrun::planner
