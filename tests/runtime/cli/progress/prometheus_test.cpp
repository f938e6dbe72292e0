// The figures of a run in the format that Prometheus reads.
#include <algorithm>
#include <arpa/inet.h>
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/cli/progress/run_log.h"
#include "tests/support/command.h"
#include "tests/support/golden.h"
#include "tests/support/tiny_model.h"

namespace xrun::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A TCP socket on this machine.
class Socket {
 public:
  Socket() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~Socket() { ::close(socket_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Listens on a free port and returns the port.
  int listen() const {
    sockaddr_in place = at(0);
    socklen_t size = sizeof(place);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&place), size), 0);
    EXPECT_EQ(::listen(socket_, 1), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&place), &size), 0);
    return ntohs(place.sin_port);
  }
  bool connect(int port) const {
    const sockaddr_in place = at(port);
    return ::connect(socket_, reinterpret_cast<const sockaddr*>(&place), sizeof(place)) == 0;
  }
  void send(const std::string& text) const { (void)::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  std::string receive() const {
    std::string text;
    char part[4096];
    for (ssize_t n = 0; (n = ::recv(socket_, part, sizeof(part), 0)) > 0;) {
      text.append(part, static_cast<size_t>(n));
    }
    return text;
  }

 private:
  static sockaddr_in at(int port) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<uint16_t>(port));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return place;
  }
  int socket_;
};

int free_port() { return Socket().listen(); }

std::string get(int port, const std::string& path) {
  const Socket socket;
  EXPECT_TRUE(socket.connect(port));
  socket.send("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  return socket.receive();
}

// Returns the lines with our figures, sorted because the format does not define their order.
std::vector<std::string> figures(int port) {
  std::vector<std::string> lines;
  std::istringstream text(get(port, "/metrics"));
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("xrun_")) {
      lines.push_back(line);
    }
  }
  std::ranges::sort(lines);
  return lines;
}

// A sink that keeps warnings.
struct Warnings : runtime::EventSink {
  explicit Warnings(std::vector<std::string>& list) : texts(list) {}
  void on(const runtime::Event& event) override {
    if (const auto* const warning = std::get_if<runtime::WarnEvent>(&event)) {
      texts.push_back(warning->code + " " + warning->message);
    }
  }
  std::vector<std::string>& texts;
};

class PrometheusTest : public ::testing::Test {
 protected:
  std::unique_ptr<LoggedProgress> serve(int port) {
    return std::make_unique<LoggedProgress>(
        std::make_unique<Warnings>(warnings),
        LogOptions{.directory = directory.path(), .prometheus = "127.0.0.1:" + std::to_string(port)});
  }
  testing::TemporaryDirectory directory;
  std::vector<std::string> warnings;
};

TEST_F(PrometheusTest, HasTheValuesOfTheLatestEvents) {
  const int port = free_port();
  const auto run = serve(port);
  run->on(runtime::StartEvent{.model = "a \"net\"",
                              .plan = "3feb890c",
                              .steps = 100,
                              .samples = 3200,
                              .batch = 32,
                              .predicted_step = 0.5,
                              .memory_planned = 4096,
                              .ranks = 2});
  EXPECT_EQ(figures(port),
            (std::vector<std::string>{"xrun_arena_planned_bytes 4096", "xrun_batch 32", "xrun_epoch_samples 3200",
                                      "xrun_ranks 2", "xrun_run_info{model=\"a \\\"net\\\"\",plan=\"3feb890c\"} 1",
                                      "xrun_step 0", "xrun_step_predicted_seconds 0.5", "xrun_steps 100"}));
  for (const int step : {10, 20}) {
    run->on(runtime::StepEvent{{.step = step,
                                .epoch = step / 100.0,
                                .loss = 99,
                                .lr = 0.125,
                                .grad_norm = 2,
                                .loss_scale = 512,
                                .skipped_steps = 3,
                                .metrics = {{"accuracy", 99}},
                                .active = {{.head = "id", .classes = 300}},
                                .line = {.loss = 5.0 / step,
                                         .metrics = {{"accuracy", 0.25}},
                                         .samples_per_second = 64,
                                         .step = 0.5,
                                         .data_wait = 0.03125,
                                         .evaluation = 3,
                                         .saves = 2},
                                .batch = 32,
                                .seconds = 99,
                                .devices = {{.busy = 0.25, .exposed_comm = 0.125, .idle = 0.0625}},
                                .data_wait = 99,
                                .memory = 1024,
                                .resident = 2048},
                               true});
  }
  run->on(
      runtime::StepEvent{{.step = 21, .line = {.loss = 7}}, false});  // not due, so the values remain those of step 20
  run->on(runtime::EvalEvent{.step = 20, .metrics = {{"test", 0.75, true}}});
  run->on(runtime::CheckpointEvent{.step = 20, .path = "p", .seconds = 0.5, .bytes = 512});
  run->on(runtime::WarnEvent{"XG0811", "slow"});
  run->on(runtime::WarnEvent{"XG0811", "slow"});
  EXPECT_EQ(figures(port), (std::vector<std::string>{
                               "xrun_active_classes{head=\"id\"} 300",
                               "xrun_arena_bytes 1024",
                               "xrun_arena_planned_bytes 4096",
                               "xrun_batch 32",
                               "xrun_checkpoint_bytes 512",
                               "xrun_checkpoint_seconds 0.5",
                               "xrun_checkpoint_step 20",
                               "xrun_data_wait_seconds 0.03125",
                               "xrun_device_seconds{device=\"0\",part=\"busy\"} 0.25",
                               "xrun_device_seconds{device=\"0\",part=\"exposed_comm\"} 0.125",
                               "xrun_device_seconds{device=\"0\",part=\"idle\"} 0.0625",
                               "xrun_epoch 0.2",
                               "xrun_epoch_samples 3200",
                               "xrun_evaluation_pause_seconds 3",
                               "xrun_evaluation_step 20",
                               "xrun_evaluation{metric=\"test\",synthetic=\"yes\"} 0.75",
                               "xrun_gradient_norm 2",
                               "xrun_learning_rate 0.125",
                               "xrun_loss 0.25",
                               "xrun_loss_scale 512",
                               "xrun_metric{metric=\"accuracy\"} 0.25",
                               "xrun_ranks 2",
                               "xrun_resident_bytes 2048",
                               "xrun_run_info{model=\"a \\\"net\\\"\",plan=\"3feb890c\"} 1",
                               "xrun_samples_per_second 64",
                               "xrun_save_pause_seconds 2",
                               "xrun_skipped_steps 3",
                               "xrun_step 20",
                               "xrun_step_predicted_seconds 0.5",
                               "xrun_step_seconds 0.5",
                               "xrun_steps 100",
                               "xrun_warnings_total{code=\"XG0811\"} 2",
                           }));
  EXPECT_EQ(warnings, (std::vector<std::string>{"XG0811 slow", "XG0811 slow"}));
}

TEST_F(PrometheusTest, MalformedRequestsDoNotDisturbTheServer) {
  const int port = free_port();
  const auto run = serve(port);
  run->on(runtime::StartEvent{.model = "net", .plan = "1", .steps = 3});
  for (const std::string& request :
       {std::string("GARBAGE\r\n\r\n"), "GET /" + std::string(1 << 20, 'a') + " HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\n" + std::string(1 << 20, 'h') + ": x\r\n\r\n", std::string("POST /metrics HTTP/1.1\r\n\r\n"),
        std::string("\0\xff\xfe\r\n\r\n", 7)}) {
    const Socket socket;
    ASSERT_TRUE(socket.connect(port));
    socket.send(request);
    ::testing::Test::RecordProperty("answer", socket.receive().substr(0, 12));
  }
  for (const char* path : {"/", "/etc/passwd", "/../../etc/passwd", "/metrics/../../etc/passwd"}) {
    const std::string answer = get(port, path);
    EXPECT_EQ(answer.find("root:"), std::string::npos) << path;
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 4")) << path;
  }
  const Socket idle;
  ASSERT_TRUE(idle.connect(port));  // sends nothing and stays connected until the run ends
  EXPECT_THAT(get(port, "/metrics"), HasSubstr("\nxrun_steps 3\n"));
}

TEST_F(PrometheusTest, ARunContinuesIfThePortIsInUse) {
  const Socket other;
  const std::string address = "127.0.0.1:" + std::to_string(other.listen());
  directory.write("tiny.xgraph", testing::tiny_model());
  const auto result = testing::run_xrun({"train", "tiny.xgraph", "--steps", "5", "--progress", "plain", "--set",
                                         "train.log.prometheus=\"" + address + "\""},
                                        {.directory = directory.path()});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning[XG0817]: figures cannot be served at " + address +
                                    ": Address already in use; the run continues without them"));
}

// The server's library ignores SIGPIPE in the whole process. `xrun train --progress json | head -2` must still end.
TEST_F(PrometheusTest, ARunIsSavedWhenTheReaderOfItsPipeEnds) {
  directory.write("tiny.xgraph", testing::tiny_model());
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  const std::string words = "cd " + directory.path() + " && timeout 60 " + XRUN_BINARY_DIR +
                            "/xrun train tiny.xgraph --set train.epochs=100000 --set 'train.log.prometheus=\"" +
                            address + "\"' --progress json 2>err | head -2 >first";
  ASSERT_EQ(WEXITSTATUS(std::system(words.c_str())), 0);
  EXPECT_THAT(testing::read_file(directory.path() + "/err"), HasSubstr("cannot be written to stdout"));
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/ckpt/quick/latest"));
}

}  // namespace
}  // namespace xrun::cli
