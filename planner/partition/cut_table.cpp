// g[s][j] is the least time of the first j layers on s stages with no stage above the limit. Without a limit of memory,
// all cuts have the same sum of stage times, so that only hops count. The first layers from which a stage may reach a
// position then form a window that moves with the position, and the least element of the window is found in constant
// time (a queue whose elements ascend), so a row of the table takes time proportional to the layers. Whether there are
// any cuts is then found by making each stage as long as possible.
// Tests: tests/planner/partition/partition_test.cpp
#include "planner/partition/cut_table.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "graph/base/check.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sets each of next[first .. last] to the sum of `before`, its time and its hop, if the sum is smaller. With a limit of
// memory, most of the time is spent in this loop. The compiler vectorizes it, but not if the function is inlined.
[[gnu::noinline]] void lower(double* __restrict next, double before, const double* times, const double* hops, int first,
                             int last) {
  for (int j = first; j <= last; ++j) {
    const double sum = before + times[j] + hops[j];
    const double known = next[j];
    next[j] = sum < known ? sum : known;
  }
}

}  // namespace

CutTable::CutTable(const PartitionRequest& request, const StageTimes& times)
    : request_(request), times_(times), n_(static_cast<int>(request.layers.size())), rules_(request) {
  for (const PartitionLayer& layer : request.layers) {
    hops_.push_back(request.seconds_per_boundary_byte * static_cast<double>(layer.incoming));
  }
  hops_.push_back(0);
  is_plain_ = times.free();
  for (int l = 0; l < n_; ++l) {
    is_plain_ = is_plain_ && request.layers[static_cast<size_t>(l)].pinned < 0;
    if (rules_.may_cut(l)) {
      cuts_.push_back(l);
    }
  }
}

CutTable::Ends CutTable::ends_within(Seconds limit, int s, int begin) const {
  const int last = rules_.last_end(s, begin);
  if (s + 1 == request_.stages) {
    return last == n_ && times_.time(s, begin, n_) <= limit ? Ends{n_, n_} : Ends{};
  }
  return last <= begin ? Ends{} : Ends{begin + 1, times_.end_within(limit, s, begin, last)};
}

std::vector<PartitionStage> CutTable::longest_stages(Seconds limit) const {
  std::vector<PartitionStage> stages;
  const int count = request_.stages;
  const auto cuts = static_cast<int>(cuts_.size());
  int begin = 0;
  for (int s = 0; s < count; ++s) {
    const bool last = s + 1 == count;
    const int kept = count - 2 - s;  // cuts of the stages after the next one
    if (!last && cuts <= kept) {
      return {};
    }
    const int most = last ? n_ : cuts_[static_cast<size_t>(cuts - 1 - kept)];
    int end = times_.end_within(limit, s, begin, most);
    if (!last) {
      const auto after = std::upper_bound(cuts_.begin(), cuts_.end(), end);
      end = after == cuts_.begin() ? 0 : *std::prev(after);
    }
    if (end <= begin || (last && end < n_)) {
      return {};
    }
    stages.push_back({.begin = begin, .end = end});
    begin = end;
  }
  return stages;
}

bool CutTable::possible(Seconds limit) const {
  if (is_plain_) {
    return !longest_stages(limit).empty();
  }
  std::vector<int> now(static_cast<size_t>(n_) + 2, 0);  // [i]: number of ways in which stages can end before layer i
  now[0] = 1;
  for (int s = 0; s < request_.stages; ++s) {
    std::vector<int> changes(now.size(), 0);  // changes in the number of ways from one end to the next
    for (int i = s; i < n_; ++i) {
      if (now[static_cast<size_t>(i)] == 0 || !rules_.may_begin(s, i)) {
        continue;
      }
      const Ends ends = ends_within(limit, s, i);
      if (ends.first <= ends.last) {
        ++changes[static_cast<size_t>(ends.first)];
        --changes[static_cast<size_t>(ends.last) + 1];
      }
    }
    std::partial_sum(changes.begin(), changes.end(), now.begin());
  }
  return now[static_cast<size_t>(n_)] > 0;
}

Seconds CutTable::least_limit() const {
  // The largest stage is no smaller than the mean one.
  Seconds low = is_plain_ ? times_.time(0, 0, n_) / request_.stages * (1 - 1e-9) : 0;
  Seconds high = times_.upto(kInfinity);
  if (!possible(high)) {
    return kInfinity;
  }
  // Without a table it takes longer to find the times of stages than to try a limit.
  while (is_plain_ && high - low > 1e-6 * high) {
    const Seconds middle = (low + high) / 2;
    possible(middle) ? high = middle : low = middle;
  }
  high = times_.upto(high);
  for (Seconds middle = low; (middle = times_.above(low)) < high;) {
    middle = std::max(middle, times_.upto((low + high) / 2));
    possible(middle) ? high = middle : low = middle;
  }
  return high;
}

void CutTable::extend_by_table(Seconds limit, int s) {
  for (int i = s; i < n_; ++i) {
    if (row(s)[i] < kInfinity && rules_.may_begin(s, i)) {
      const Ends ends = ends_within(limit, s, i);
      lower(row(s + 1), row(s)[i], times_.times(s, i), hops_.data(), ends.first, ends.last);
    }
  }
}

void CutTable::extend_by_window(Seconds limit, int s) {
  const double* now = row(s);
  double* next = row(s + 1);
  const bool last = s + 1 == request_.stages;
  window_.clear();
  size_t front = 0;
  for (int j = s + 1; j <= n_; ++j) {
    const int i = j - 1;
    if (now[i] < kInfinity && rules_.may_begin(s, i) && rules_.last_end(s, i) > i) {
      while (window_.size() > front && now[window_.back()] > now[i]) {
        window_.pop_back();
      }
      window_.push_back(i);
    }
    const auto reaches = [&](int begin) { return j <= rules_.last_end(s, begin) && times_.time(s, begin, j) <= limit; };
    while (front < window_.size() && !reaches(window_[front])) {
      ++front;
    }
    if (front < window_.size() && (!last || j == n_)) {
      next[j] = now[window_[front]] + hops_[static_cast<size_t>(j)];
    }
  }
}

double CutTable::cheapest(Seconds limit) {
  limit_ = limit;
  best_.assign((static_cast<size_t>(request_.stages) + 1) * (static_cast<size_t>(n_) + 1), kInfinity);
  best_[0] = 0;
  for (int s = 0; s < request_.stages; ++s) {
    times_.free() ? extend_by_window(limit, s) : extend_by_table(limit, s);
  }
  return best_.back() + (times_.free() ? times_.time(0, 0, n_) : 0.0);
}

int CutTable::begin_of(int s, int end) const {
  const double* now = row(s);
  const double hop = hops_[static_cast<size_t>(end)];
  for (int i = s; i < end; ++i) {
    const double own = times_.free() ? 0.0 : times_.time(s, i, end);
    if (now[i] + own + hop == row(s + 1)[end] && rules_.may_begin(s, i)) {
      const Ends ends = ends_within(limit_, s, i);
      if (ends.first <= end && end <= ends.last) {
        return i;
      }
    }
  }
  XRUN_CHECK(false, "no stage ends where the best cuts do");
  return 0;
}

std::vector<PartitionStage> CutTable::trace() const {
  std::vector<PartitionStage> stages(static_cast<size_t>(request_.stages));
  int end = n_;
  for (int s = request_.stages - 1; s >= 0; --s) {
    PartitionStage& stage = stages[static_cast<size_t>(s)];
    stage.begin = begin_of(s, end);
    stage.end = end;
    end = stage.begin;
  }
  return stages;
}

}  // namespace xrun::planner
