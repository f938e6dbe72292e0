// The power goes while checkpoints are saved on a real file system. It is an ext4 that writes the data of a file only
// when it is asked to (`noauto_da_alloc`), in an image file on an XFS. A clone of the image (reflink) holds what a disk
// without a cache would hold if the power had gone at that moment. Each clone is mounted and must hold the steps that
// had been announced as saved.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iostream>
#include <linux/fs.h>
#include <optional>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "runtime/checkpoint/files/directory.h"
#include "tests/fault_injection/runs.h"
#include "tests/runtime/checkpoint/checkpoint_model.h"
#include "tests/runtime/checkpoint/rows_run.h"
#include "tests/support/command.h"
#include "tests/support/sanitized.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using testing::CheckpointModel;

constexpr int64_t kCuts = 1000;
constexpr int64_t kClasses = 3000;  // classes of the saved model

CheckpointOptions options(const std::string& disk, Io& io) {
  return {.directory = disk + "/ckpt",
          .keep = 2,
          .math_digest = "math",
          .classes = {{"label", true, {"one", "two"}}},
          .io = &io};
}

// A disk that can be cloned while it is being written. Its mounts are visible only to this thread and to processes and
// threads that it starts.
class ClonedDisk {
 public:
  ClonedDisk() {
    before_ = ::open("/proc/thread-self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (xrun::testing::kThreadSanitizer) {
      missing_ = "ThreadSanitizer has a thread of its own, so this process cannot change its mounts";
      return;
    }
    if (unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      missing_ = "no right to mount file systems";
      return;
    }
    fs::create_directory(below("xfs"));
    fs::create_directory(below("disk"));
    fs::create_directory(below("clone"));
    make_file(below("xfs.img"), 1024);
    if (done("/usr/sbin/mkfs.xfs", {"-q", "-m", "reflink=1", below("xfs.img")}) &&
        mounted("loop", below("xfs.img"), below("xfs"))) {
      make_file(below("xfs/disk.img"), 96);
      if (done("/usr/sbin/mkfs.ext4", {"-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", below("xfs/disk.img")}) &&
          mounted("loop,noauto_da_alloc,commit=1", below("xfs/disk.img"), path()) && clone()) {
        forget_clone();
      }
    }
  }
  ~ClonedDisk() {
    for (const char* mount : {"clone", "disk", "xfs"}) {
      umount2(below(mount).c_str(), MNT_DETACH);
    }
    if (!xrun::testing::kThreadSanitizer) {
      EXPECT_EQ(setns(before_, CLONE_NEWNS), 0) << strerror(errno);
    }
    ::close(before_);
  }
  ClonedDisk(const ClonedDisk&) = delete;
  ClonedDisk& operator=(const ClonedDisk&) = delete;

  // Returns why the disk cannot be made, or an empty string.
  const std::string& missing() const { return missing_; }
  std::string path() const { return below("disk"); }

  // Clones and mounts the current contents of the disk and returns the path; `forget_clone` unmounts it. Returns
  // nullopt on failure; then `missing` returns the reason.
  std::optional<std::string> clone() {
    image_ = below(fmt::format("xfs/clone{}.img", ++clones_));  // no loop device has blocks of a former one
    const int from = ::open(below("xfs/disk.img").c_str(), O_RDONLY | O_CLOEXEC);
    const int to = ::open(image_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (ioctl(to, FICLONE, from) != 0) {
      missing_ = fmt::format("a clone of a file: {}", strerror(errno));
    }
    ::close(from);
    ::close(to);
    return missing_.empty() && mounted("loop", image_, below("clone")) ? std::optional(below("clone")) : std::nullopt;
  }
  void forget_clone() {
    EXPECT_EQ(umount2(below("clone").c_str(), 0), 0) << strerror(errno);
    fs::remove(image_);
  }

 private:
  std::string below(const std::string& name) const { return directory_.path() + "/" + name; }
  static void make_file(const std::string& path, int64_t mib) {
    std::ofstream(path).close();
    fs::resize_file(path, static_cast<uintmax_t>(mib) << 20);
  }
  bool done(const std::string& program, const std::vector<std::string>& words) {
    const auto result = xrun::testing::run_xrun(words, {.binary = program});
    if (result.exit != 0) {
      missing_ = program + ": " + (fs::exists(program) ? result.err : "not installed (xfsprogs, e2fsprogs, mount)");
    }
    return result.exit == 0;
  }
  bool mounted(const std::string& how, const std::string& file, const std::string& where) {
    return done("/usr/bin/mount", {"-o", how, file, where});
  }

  xrun::testing::TemporaryDirectory directory_;
  std::string missing_;
  std::string image_;  // image file of the newest clone
  int64_t clones_ = 0;
  int before_ = -1;  // mount namespace of the thread before the constructor
};

// Saves one step after another until it is destroyed. Step s has the weights of seed s.
class Saves {
 public:
  Saves(const std::string& disk, Io& io) : thread_([this, disk, &io] { save(disk, io); }) {}
  ~Saves() {
    stop_ = true;
    thread_.join();
  }
  Saves(const Saves&) = delete;
  Saves& operator=(const Saves&) = delete;

  int64_t announced() const { return announced_; }
  bool failed() const { return failed_; }

 private:
  void save(const std::string& disk, Io& io) {
    CheckpointModel model(2, kClasses);
    auto store = make_checkpoint_store(options(disk, io));
    for (int64_t step = 1; store.ok() && !stop_; ++step) {
      model.fill(static_cast<uint64_t>(step));
      if (!(*store)->save(model.state(), step, step).ok()) {
        break;
      }
      announced_ = step;
    }
    failed_ = !stop_;
  }

  std::atomic<int64_t> announced_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> failed_ = false;
  std::thread thread_;
};

// Checks the checkpoints on a disk.
class Look {
 public:
  // Returns an empty string if every step is complete and a run would resume from step `announced` or a later one.
  std::string at(const std::string& disk, int64_t announced) {
    for (const int64_t step : steps_in(disk + "/ckpt")) {
      const auto info = open_checkpoint(disk + "/ckpt/" + step_name(step));
      if (!info.ok()) {
        return info.error().message;
      }
      if (const Status loaded = load_checkpoint(*info, read_.state(), true); !loaded.ok()) {
        return loaded.error().message;
      }
      saved_.fill(static_cast<uint64_t>(step));
      if (read_.contents() != saved_.contents()) {
        return step_name(step) + " has other weights";
      }
    }
    auto store = make_checkpoint_store(options(disk, system_io()));
    if (!store.ok()) {
      return store.error().message;
    }
    const auto resumed = (*store)->resume(read_.state());
    if (!resumed.ok()) {
      return resumed.error().message;
    }
    const int64_t step = *resumed ? (*resumed)->step : 0;
    return step >= announced ? "" : fmt::format("a run goes on from step {}, saved was step {}", step, announced);
  }

 private:
  CheckpointModel read_{3, kClasses};
  CheckpointModel saved_{2, kClasses};
};

// Counts the cuts, of `cuts`, after which an announced step is missing, and describes the first of them in `faults`. A
// new step is announced before each cut.
int64_t count_losses(ClonedDisk& disk, Io& io, int64_t cuts, std::string& faults) {
  std::mt19937_64 random(xrun::testing::fault_seed());
  const Saves saves(disk.path(), io);
  Look look;
  int64_t losses = 0;
  int64_t announced = 0;
  for (int64_t cut = 0; cut < cuts; ++cut) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (saves.announced() == announced && !saves.failed() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    const int64_t before = std::exchange(announced, saves.announced());
    EXPECT_GT(announced, before) << "the power stays on, and saves fail or take more than a minute";
    const auto clone = disk.clone();
    EXPECT_TRUE(clone.has_value()) << disk.missing();
    if (announced == before || !clone) {
      return losses;
    }
    const std::string fault = look.at(*clone, announced);
    disk.forget_clone();
    if (!fault.empty() && ++losses <= 5) {
      faults += fmt::format("cut {}: {}\n", cut, fault);
    }
  }
  std::cout << cuts << " cuts between " << saves.announced() << " saves, " << losses << " of them lost something\n";
  return losses;
}

class DiskCuts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!disk.missing().empty()) {
      GTEST_SKIP() << disk.missing() << ": no power cut of a real file system is tested";
    }
  }

  ClonedDisk disk;
};

TEST_F(DiskCuts, LoseNothingThatWasSaved) {
  std::string faults;
  EXPECT_EQ(count_losses(disk, system_io(), xrun::testing::fault_runs(20, kCuts), faults), 0) << faults;
}

// Proves that the test above can fail: without syncs, almost every cut loses a step.
TEST_F(DiskCuts, AlmostAllCutsLoseDataThatWasNotSynced) {
  const int64_t cuts = xrun::testing::fault_runs(10, kCuts);
  xrun::testing::UnsyncedIo io;
  std::string faults;
  EXPECT_GE(count_losses(disk, io, cuts, faults) * 10, cuts * 8);
  std::cout << faults;
}

}  // namespace
}  // namespace xrun::runtime
