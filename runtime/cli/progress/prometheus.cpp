#include "runtime/cli/progress/prometheus.h"

#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>
#include <variant>

#include "graph/base/overloaded.h"

namespace xrun::cli {
namespace {

// Finds out why the server cannot listen at an address. Its library does not report the cause, so this function tries
// to listen without it.
std::string cause_at(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &place.sin_addr);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) {
    return std::strerror(errno);
  }
  const int reuse = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
  const bool bound = ::bind(socket, reinterpret_cast<const sockaddr*>(&place), sizeof(place)) == 0;
  const int error = errno;
  ::close(socket);
  return bound ? "its threads do not start" : std::strerror(error);
}

struct sigaction action_of(int number) {
  struct sigaction action {};
  ::sigaction(number, nullptr, &action);
  return action;
}

using Labels = prometheus::Labels;

}  // namespace

struct Prometheus::Server {
  explicit Server(const std::string& address) : exposer(address) { exposer.RegisterCollectable(figures); }

  // The threads of the server make the whole process ignore SIGPIPE when they start, which may be at any time after the
  // server was made. So each event restores the handler, which stops a run whose output nobody reads any more.
  void keep_signals() const { ::sigaction(SIGPIPE, &lost_reader, nullptr); }

  prometheus::Family<prometheus::Gauge>& family(const std::string& name, const std::string& help) const {
    return prometheus::BuildGauge().Name("xrun_" + name).Help(help).Register(*figures);
  }
  // Sets a figure. Several figures of one name differ in their labels; a figure may also have no labels.
  void set(const std::string& name, const std::string& help, double value, const Labels& labels = {}) const {
    family(name, help).Add(labels).Set(value);
  }

  // Sets the figures of an event.
  void show(const runtime::StartEvent& event) const;
  void show(const runtime::StepReport& report) const;
  void show(const runtime::EvalEvent& event) const;
  void show(const runtime::CheckpointEvent& event) const;
  void show(const runtime::WarnEvent& event) const;

  const struct sigaction lost_reader = action_of(SIGPIPE);  // the handler of SIGPIPE before the server starts
  std::shared_ptr<prometheus::Registry> figures =
      std::make_shared<prometheus::Registry>(prometheus::Registry::InsertBehavior::Merge);
  prometheus::Exposer exposer;
};

void Prometheus::Server::show(const runtime::StartEvent& event) const {
  keep_signals();
  set("run_info", "the model and the plan of the run; always 1", 1, {{"model", event.model}, {"plan", event.plan}});
  set("step", "steps done", static_cast<double>(event.first_step));
  set("steps", "steps of the whole run", static_cast<double>(event.steps));
  set("epoch_samples", "samples of an epoch", static_cast<double>(event.samples));
  set("batch", "samples of the step", static_cast<double>(event.batch));
  set("ranks", "processes of the run", event.ranks);
  set("step_predicted_seconds", "the time of a step that the plan predicts", event.predicted_step);
  set("arena_planned_bytes", "all memory that the plan counts", static_cast<double>(event.memory_planned));
}

void Prometheus::Server::show(const runtime::StepReport& report) const {
  keep_signals();
  set("step", "steps done", static_cast<double>(report.step));
  set("epoch", "epochs done", report.epoch);
  set("loss", "the loss, a mean since the line before", report.line.loss);
  set("learning_rate", "the rate of the step", report.lr);
  if (report.grad_norm > 0) {
    set("gradient_norm", "the norm that `clip` bounds", report.grad_norm);
  }
  if (report.loss_scale > 0) {
    set("loss_scale", "the scale of the loss in the step", report.loss_scale);
    set("skipped_steps", "steps that made no update, since a gradient was too large for f16",
        static_cast<double>(report.skipped_steps));
  }
  set("batch", "samples of the step", static_cast<double>(report.batch));
  set("samples_per_second", "samples by the clock since the line before, without evaluations and saves",
      report.line.samples_per_second);
  set("evaluation_pause_seconds", "the time of evaluations since the line before", report.line.evaluation);
  set("save_pause_seconds", "how long steps waited for saves since the line before", report.line.saves);
  set("step_seconds", "the time of a step since the line before, waiting for data included", report.line.step);
  set("data_wait_seconds", "how long a step waited for data since the line before", report.line.data_wait);
  set("arena_bytes", "memory of all arenas", static_cast<double>(report.memory));
  set("resident_bytes", "memory of the process", static_cast<double>(report.resident));
  for (const auto& [name, value] : report.line.metrics) {
    set("metric", "a metric, a mean since the line before", value, {{"metric", name}});
  }
  for (size_t device = 0; device < report.devices.size(); ++device) {
    const runtime::DeviceTimes& times = report.devices[device];
    for (const auto& [part, seconds] : {std::pair("busy", times.busy), std::pair("exposed_comm", times.exposed_comm),
                                        std::pair("idle", times.idle)}) {
      set("device_seconds", "the time of the step on a device", seconds,
          {{"device", std::to_string(device)}, {"part", part}});
    }
  }
  for (const runtime::ActiveReport& active : report.active) {
    set("active_classes", "active classes of a head in the step", static_cast<double>(active.classes),
        {{"head", active.head}});
  }
}

void Prometheus::Server::show(const runtime::EvalEvent& event) const {
  for (const runtime::Measured& one : event.metrics) {
    set("evaluation", "a metric over all samples of a source", one.value,
        {{"metric", one.key}, {"synthetic", one.synthetic ? "yes" : "no"}});
  }
  set("evaluation_step", "steps done before the last evaluation", static_cast<double>(event.step));
}

void Prometheus::Server::show(const runtime::CheckpointEvent& event) const {
  set("checkpoint_step", "steps done before the last save", static_cast<double>(event.step));
  set("checkpoint_seconds", "how long it took", event.seconds);
  set("checkpoint_bytes", "its size", static_cast<double>(event.bytes));
}

void Prometheus::Server::show(const runtime::WarnEvent& event) const {
  prometheus::BuildCounter()
      .Name("xrun_warnings_total")
      .Help("warnings of the run, by code")
      .Register(*figures)
      .Add({{"code", event.code}})
      .Increment();
}

Prometheus::Prometheus(std::unique_ptr<Server> server) : server_(std::move(server)) {}
Prometheus::~Prometheus() = default;

Result<std::unique_ptr<Prometheus>> Prometheus::listen(const std::string& address) {
  try {
    return std::unique_ptr<Prometheus>(new Prometheus(std::make_unique<Server>(address)));
  } catch (const std::exception&) {
    return Error{ErrorKind::kWorld, "XG0817", "figures cannot be served at " + address + ": " + cause_at(address),
                 "end the process that listens there, or choose another address or port in `log.prometheus`"};
  }
}

void Prometheus::on(const runtime::Event& event) {
  const auto show = Overloaded{
      [this](const runtime::StartEvent& e) { server_->show(e); },
      [this](const runtime::StepEvent& e) { server_->show(e.report); },
      [this](const runtime::EvalEvent& e) { server_->show(e); },
      [this](const runtime::CheckpointEvent& e) { server_->show(e); },
      [this](const runtime::WarnEvent& e) { server_->show(e); },
      [](const auto&) {},
  };
  std::visit(show, event);
}

}  // namespace xrun::cli
