// Prints lines about the progress of a long search for a plan.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/cli/console/console.h"

namespace xrun::cli {

// Prints a line every 10 s while the object exists, on a thread of its own; prints nothing if no thread can be made.
// Nothing else may print to the console in the meantime.
class SearchWatch {
 public:
  explicit SearchWatch(const Console& console, std::chrono::milliseconds every = std::chrono::seconds(10));
  ~SearchWatch();
  SearchWatch(const SearchWatch&) = delete;
  SearchWatch& operator=(const SearchWatch&) = delete;

  // Sets the text about the search's current work: "program 2 of at most 6 (stages = 1, micro_batches = 4)".
  void set(std::string what);

 private:
  void run();

  const Console& console_;
  std::chrono::milliseconds every_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::string what_;
  std::thread thread_;
};

}  // namespace xrun::cli
