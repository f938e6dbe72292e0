// Remembers the declarations whose trials found no faults. A trial expands a declaration that nothing calls
// (lang/elaborate/trials/uncalled.h). An editor checks a file at every keystroke; trials that would read unchanged
// texts are skipped, since their result would not change. One thread.
//
// REQUIRES: all checks that share it have equal options, except for `facts` and `open`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

namespace xrun::lang {

class CleanTrials {
 public:
  using Key = std::array<std::byte, 16>;  // digest of the texts that the trials of a declaration read

  struct Steps {
    int64_t longest = 0;  // evaluation steps of the longest trial: a smaller bound might end it early
    int64_t all = 0;      // evaluation steps of all trials of the declaration
  };

  // The steps of the stored trials with this key; null if no such trials are stored.
  const Steps* find(const Key& key) const {
    const auto at = known_.find(key);
    return at == known_.end() ? nullptr : &at->second;
  }

  void add(const Key& key, Steps steps) {
    constexpr size_t kMost = 16'384;  // bounds the memory; a check tries at most 1,000 declarations
    if (known_.size() >= kMost) {
      known_.clear();
    }
    known_[key] = steps;
  }

 private:
  std::map<Key, Steps> known_;
};

}  // namespace xrun::lang
