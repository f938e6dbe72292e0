// The figures of a run for Prometheus, served over HTTP while the run lasts (docs/reference/command/progress.md,
// "Prometheus").
#pragma once

#include <memory>
#include <string>

#include "graph/base/result.h"
#include "runtime/train/events/events.h"

namespace xrun::cli {

// Serves the figures of the latest events at http://ADDRESS:PORT/metrics; there are no other pages. Threads: the server
// has its own threads, which answer requests; any thread may call `on`.
class Prometheus final : public runtime::EventSink {
 public:
  // `address`: an IPv4 address with a port, "127.0.0.1:9464". Errors: kWorld XG0817 the server cannot listen there.
  static Result<std::unique_ptr<Prometheus>> listen(const std::string& address);
  ~Prometheus() override;
  Prometheus(const Prometheus&) = delete;
  Prometheus& operator=(const Prometheus&) = delete;

  void on(const runtime::Event& event) override;

 private:
  struct Server;
  explicit Prometheus(std::unique_ptr<Server> server);

  std::unique_ptr<Server> server_;
};

}  // namespace xrun::cli
