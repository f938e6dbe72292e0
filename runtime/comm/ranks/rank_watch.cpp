#include "runtime/comm/ranks/rank_watch.h"

#include <exception>
#include <mutex>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

class SocketWatch final : public RankWatch {
 public:
  SocketWatch(int rank, std::vector<Socket> sockets, std::function<void(const LostRank&)> on_lost, WatchOptions options)
      : options_(std::move(options)),
        on_lost_(std::move(on_lost)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        rules_(rank, std::move(sockets), options_.limits, options_.describe) {
    thread_ = std::thread([this] { run(); });
  }

  ~SocketWatch() override {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    const uint64_t one = 1;
    (void)!::write(wake_.descriptor(), &one, sizeof one);
    thread_.join();
  }

  std::optional<LostRank> lost() const override {
    const std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  void run() {
    Seconds lost_at = 0;
    for (bool told = false; wait();) {
      rules_.turn(options_.work ? options_.work() : WorkReport{});
      for (const auto& [rank, report] : rules_.take_late()) {
        if (options_.on_late) {
          options_.on_late(rank, report);
        }
      }
      const auto& lost = rules_.lost();
      if (lost && !told) {
        told = true;
        lost_at = system_clock().now();
        {
          const std::lock_guard lock(mutex_);
          lost_ = lost;
        }
        on_lost_(*lost);
      } else if (lost && options_.on_stuck && system_clock().now() - lost_at >= options_.grace) {
        return options_.on_stuck(*lost);
      }
    }
    rules_.end();
  }

  // Waits until data have arrived or the next heartbeat is due; returns false if the watch ends.
  bool wait() {
    std::vector<int> sockets = rules_.descriptors();
    sockets.push_back(wake_.descriptor());
    (void)system_net().wait(sockets, options_.limits.period);
    const std::lock_guard lock(mutex_);
    return !stops_;
  }

  const WatchOptions options_;
  const std::function<void(const LostRank&)> on_lost_;
  const Socket wake_;
  WatchRules rules_;  // used by the thread only

  mutable std::mutex mutex_;  // guards all members below
  std::optional<LostRank> lost_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<RankWatch>> RankWatch::start(int rank, std::vector<Socket> connections,
                                                    std::function<void(const LostRank&)> on_lost,
                                                    WatchOptions options) {
  try {
    return std::unique_ptr<RankWatch>(
        std::make_unique<SocketWatch>(rank, std::move(connections), std::move(on_lost), std::move(options)));
  } catch (const std::exception&) {
    return world_error("XG0803", "the system lets this process start no more threads", "raise its limit (`ulimit -u`)");
  }
}

}  // namespace xrun::runtime
