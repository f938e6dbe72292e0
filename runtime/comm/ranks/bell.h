// A bell that other processes of the host ring after they have sent a message. MPI tells of a message only where it is
// asked, and asking all the time takes processor time from those that compute.
#pragma once

#include <chrono>
#include <string>

namespace xrun::runtime {

// Threads: one waits; any ring.
class Bell {
 public:
  // Where the system gives no socket, `name` is empty and only this process can ring.
  Bell();
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  // The name by which other processes ring.
  const std::string& name() const { return name_; }
  void ring() const;
  // Rings the bell of another process. Gives whether there is such a bell.
  bool ring(const std::string& name) const;
  // Returns when the bell has been rung since the last call, or after `most`. Gives whether it was rung.
  bool wait(std::chrono::microseconds most) const;

 private:
  int event_ = -1;   // rung by this process
  int socket_ = -1;  // rung by others
  std::string name_;
};

}  // namespace xrun::runtime
