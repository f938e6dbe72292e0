// A wake-up signal between processes of a host: after a process has sent a message to another process, it also sends it
// a wake-up, so the receiver can sleep until then. Otherwise the receiver would have to poll MPI all the time, which
// takes processor time from computation.
#pragma once

#include <chrono>
#include <string>

namespace xrun::runtime {

// Threads: one calls `wait`; any may call `send`.
class WakeUp {
 public:
  // If the system provides no socket, `name` is empty and only this process can send.
  WakeUp();
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  // The name that other processes pass to `send`.
  const std::string& name() const { return name_; }
  // Sends this wake-up, from a thread of this process.
  void send() const;
  // Sends the wake-up of another process. Returns whether such a wake-up exists.
  bool send(const std::string& name) const;
  // Waits until a wake-up arrives, for at most `most`; returns at once if one has arrived since the last call. Returns
  // whether a wake-up has arrived.
  bool wait(std::chrono::microseconds most) const;

 private:
  int event_ = -1;   // an eventfd, to which this process writes
  int socket_ = -1;  // a socket to which other processes send
  std::string name_;
};

}  // namespace xrun::runtime
