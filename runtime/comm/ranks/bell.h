// A wake-up between processes of a host: a process rings the bell of another one after it has sent it a message. MPI
// reports a message only when it is polled, and constant polling takes processor time from computation.
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

  // The name by which other processes ring.
  const std::string& name() const { return name_; }
  void ring() const;
  // Rings the bell of another process. Returns whether such a bell exists.
  bool ring(const std::string& name) const;
  // Returns when the bell has been rung since the last call, or after `most`. The result is whether it was rung.
  bool wait(std::chrono::microseconds most) const;

 private:
  int event_ = -1;   // rung by this process
  int socket_ = -1;  // rung by others
  std::string name_;
};

}  // namespace xrun::runtime
