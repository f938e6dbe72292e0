// A wake-up signal between processes of a host: after a process has sent a message to another one, it rings that
// process's bell, so the receiver can sleep until then. Without it the receiver would have to poll MPI all the time,
// which takes processor time from computation.
#pragma once

#include <chrono>
#include <string>

namespace xrun::runtime {

// Threads: one waits; any may ring.
class Bell {
 public:
  // If the system provides no socket, `name` is empty and only this process can ring.
  Bell();
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  // The name that other processes pass to `ring`.
  const std::string& name() const { return name_; }
  // Rings this bell, from a thread of this process.
  void ring() const;
  // Rings the bell of another process. Returns whether such a bell exists.
  bool ring(const std::string& name) const;
  // Waits until the bell is rung, at most for `most`; returns at once if it was rung since the last call. Returns
  // whether it was rung.
  bool wait(std::chrono::microseconds most) const;

 private:
  int event_ = -1;   // an eventfd, which this process rings
  int socket_ = -1;  // a socket, which other processes ring
  std::string name_;
};

}  // namespace xrun::runtime
