#include "runtime/cli/model/search_watch.h"

#include <chrono>
#include <fmt/format.h>
#include <system_error>
#include <utility>

namespace xrun::cli {

SearchWatch::SearchWatch(const Console& console, std::chrono::milliseconds every) : console_(console), every_(every) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {  // no thread can be made: the search continues without lines of progress
  }
}

SearchWatch::~SearchWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void SearchWatch::set(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void SearchWatch::run() {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  for (auto next = begin + every_; !ended_.wait_until(lock, next, [this] { return ends_; }); next += every_) {
    const auto passed = std::chrono::duration_cast<std::chrono::seconds>(next - begin).count();
    console_.note(fmt::format("planning for {} s{}{}\n", passed, what_.empty() ? "" : ": ", what_));
  }
}

}  // namespace xrun::cli
