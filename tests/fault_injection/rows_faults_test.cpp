// Runs over a rows file that are killed at a random time, or lose the power at a random call. They resume with exactly
// the rows of their checkpoint, or report that they cannot.
#include <filesystem>
#include <gtest/gtest.h>
#include <iostream>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fault_injection/losing_io.h"
#include "tests/fault_injection/runs.h"
#include "tests/runtime/checkpoint/rows_run.h"
#include "tests/support/command.h"

namespace xrun::testing {
namespace {

TEST(RowsKills, AfterAKillTheRowsOfTheNewestCheckpointAreRestored) {
  const int64_t kills = fault_runs(40, 1000);
  const uint64_t seed = fault_seed();
  std::mt19937_64 random(seed);
  const RowsLayout layout = small_rows(20'000);
  const TemporaryDirectory directory;
  UnsyncedIo io;
  RowsModel model(layout, 2000);
  int64_t last = 0;
  int64_t with_changes = 0;
  for (int64_t kill_number = 0; kill_number < kills; ++kill_number) {
    const int64_t every = 1 + static_cast<int64_t>(random() % 6);  // number of steps between saves
    int told[2];
    ASSERT_EQ(pipe(told), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      RowsRun run(directory.path(), layout, {.durable = kill_number % 4 == 0, .io = &io}, 2000);
      Status done = run.begin();
      while (done.ok()) {
        done = run.step();
        if (done.ok() && run.at() % every == 0) {
          done = run.save();
          const int64_t at = run.at();
          if (done.ok() && write(told[1], &at, sizeof at) != sizeof at) {
            _exit(3);
          }
        }
      }
      _exit(1);
    }
    close(told[1]);
    // Most children live until they have saved once, also on a slow machine, and then for up to 10 ms more. The others
    // are killed while they start.
    int64_t announced = 0;
    if (kill_number == 0 || random() % 4 != 0) {
      ASSERT_EQ(read(told[0], &announced, sizeof announced), static_cast<ssize_t>(sizeof announced));
    }
    usleep(static_cast<useconds_t>(random() % 10'000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
    for (int64_t next = 0; read(told[0], &next, sizeof next) == static_cast<ssize_t>(sizeof next);) {
      announced = next;
    }
    close(told[0]);
    const std::string log = directory.path() + "/rows.id.undo-" + RowsRun::checkpoint_in(directory.path())->second.log;
    with_changes += std::filesystem::file_size(log) > static_cast<uintmax_t>(kUndoHeaderBytes) ? 1 : 0;
    RowsRun run(directory.path(), layout, {.io = &io}, 2000);
    const Status begun = run.begin();
    ASSERT_TRUE(begun.ok()) << begun.error().message;
    ASSERT_GE(run.at(), announced) << "a checkpoint that was saved is lost";
    ASSERT_GE(run.at(), last);
    last = run.at();
    ASSERT_EQ(run.contents(), model.at(last)) << "kill " << kill_number << " of seed " << seed;
  }
  EXPECT_GT(with_changes, 0) << "no run had changed rows since its checkpoint";
  std::cout << kills << " kills, " << with_changes << " of them with rows to undo; step " << last << "\n";
}

// The power goes at each of the calls that make the file. Whatever is left on the disk must not prevent making the file
// again.
TEST(RowsPowerCuts, AFileThatWasBeingMadeIsMadeAgain) {
  const RowsLayout layout = small_rows(400);
  for (int64_t cut = 1; cut <= 12; ++cut) {
    for (uint64_t disk = 0; disk < 10; ++disk) {
      SCOPED_TRACE("call " + std::to_string(cut) + ", disk " + std::to_string(disk));
      std::mt19937_64 random(disk);
      const TemporaryDirectory directory;
      LosingIo io(directory.path());
      io.cut_at(cut);
      {
        RowsRun run(directory.path(), layout, {.durable = true, .io = &io, .owner = runtime::this_process()}, 20);
        static_cast<void>(run.begin());  // fails at the cut, or was done before it
      }
      io.lose(random);
      runtime::Owner later = runtime::this_process();
      later.boot = std::string(runtime::kBootDigits, 'b');
      LosingIo next(directory.path());
      next.cut_at(1000);
      RowsRun again(directory.path(), layout, {.durable = true, .io = &next, .owner = later}, 20);
      const Status begun = again.begin();
      ASSERT_TRUE(begun.ok()) << begun.error().message;
    }
  }
}

TEST(RowsPowerCuts, LoseNothingWithDurableLogsAndAreDetectedWithoutThem) {
  const int64_t cuts = fault_runs(60, 3000);
  const uint64_t seed = fault_seed();
  const RowsLayout layout = small_rows(400);
  int64_t refused = 0;
  int64_t restored = 0;
  for (int64_t cut = 0; cut < cuts; ++cut) {
    SCOPED_TRACE("cut " + std::to_string(cut) + " of seed " + std::to_string(seed));
    std::mt19937_64 random(seed + static_cast<uint64_t>(cut));
    const bool durable = cut % 2 == 0;
    const TemporaryDirectory directory;
    int64_t announced = 0;
    runtime::Owner owner = runtime::this_process();
    bool refuses = false;
    for (int life = 0; life < 4 && !refuses; ++life) {
      owner.boot = std::string(runtime::kBootDigits, static_cast<char>('a' + life));
      LosingIo io(directory.path());
      io.cut_at(1 + static_cast<int64_t>(random() % 60));
      {
        RowsRun run(directory.path(), layout, {.durable = durable, .io = &io, .owner = owner}, 20);
        Status done = run.begin();
        refuses = !done.ok() && !io.is_off();
        if (refuses) {
          EXPECT_EQ(done.error().code, "XG0717") << done.error().message;
          EXPECT_FALSE(durable);
          ++refused;
          break;
        }
        if (done.ok()) {
          ASSERT_GE(run.at(), announced);
          RowsModel model(layout, 20);
          ASSERT_EQ(run.contents(), model.at(run.at()));
          restored += life > 0 && run.at() > 0 ? 1 : 0;
        }
        while (done.ok()) {
          done = run.step();
          if (done.ok() && random() % 3 == 0) {
            done = run.save();
            announced = done.ok() ? run.at() : announced;
          }
        }
        ASSERT_TRUE(io.is_off()) << done.error().message;
      }
      io.lose(random);
    }
  }
  std::cout << cuts << " runs: " << restored << " restored, " << refused << " refused\n";
  EXPECT_GT(restored, cuts / 2);
  EXPECT_GT(refused, cuts / 10);
}

}  // namespace
}  // namespace xrun::testing
