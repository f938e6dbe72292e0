// How ranks send bytes to one another: MPI (runtime/comm/mpi/mpi_messenger.cpp), or queues in a test. The header
// includes nothing of ours, so that a module which implements it links to nothing of ours.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace xrun::runtime {

// Messages from one rank to another arrive whole and in order. No call waits.
// Threads: one makes the messenger, makes all calls and destroys it.
class Messenger {
 public:
  // A message that is here and has not been received.
  struct Arrival {
    int from = 0;
    size_t bytes = 0;
  };

  virtual ~Messenger() = default;
  virtual int rank() const = 0;
  virtual int count() const = 0;

  // Begins to send, and gives a number to ask with. The bytes stay as they are until the message is `done`.
  virtual int send(int to, const std::byte* data, size_t bytes) = 0;
  // The first message that is here; none: there is none.
  virtual std::optional<Arrival> arrived() = 0;
  // Begins to receive that message, and gives a number to ask with.
  virtual int receive(const Arrival& arrival, std::byte* data) = 0;
  // Whether what has this number is over. The number is then free.
  virtual bool done(int number) = 0;

  // What went wrong, in the words of the library; empty: nothing. Behind an error no call does anything.
  virtual std::string error() const = 0;
  // Before the messenger is destroyed. Waits until all ranks have called it.
  virtual void finish() = 0;
};

}  // namespace xrun::runtime
