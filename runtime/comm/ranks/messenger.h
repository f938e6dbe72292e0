// The interface for sending bytes between ranks. runtime/comm/mpi/mpi_messenger.cpp implements it with MPI, and tests
// with queues. The header includes no other header of xrun, so that a module that implements it need not link to xrun.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace xrun::runtime {

// Messages from one rank to another arrive complete and in order. No call waits.
// Threads: one creates the messenger, makes all calls and destroys it.
class Messenger {
 public:
  // A message that has arrived and that `receive` has not taken yet.
  struct Arrival {
    int from = 0;
    size_t bytes = 0;
  };

  virtual ~Messenger() = default;
  virtual int rank() const = 0;
  virtual int count() const = 0;

  // Begins to send. Returns a request number for `done`. REQUIRES: the bytes do not change until `done` returns true.
  virtual int send(int to, const std::byte* data, size_t bytes) = 0;
  // Returns the first message that has arrived and was not received yet; nullopt if there is no such message.
  virtual std::optional<Arrival> arrived() = 0;
  // Begins to receive the message `arrival`; returns a request number for `done`.
  virtual int receive(const Arrival& arrival, std::byte* data) = 0;
  // Whether the send or receive with this request number is complete. If so, the number is free again.
  virtual bool done(int number) = 0;

  // The library's error message; empty: no error. After an error no call has an effect.
  virtual std::string error() const = 0;
  // Call before the messenger is destroyed. Waits until all ranks have called it.
  virtual void finish() = 0;
};

}  // namespace xrun::runtime
