// Rows files and undo logs: the rows of the checkpoint are restored byte by byte, or restoring is rejected with a
// reason.
#include "runtime/checkpoint/class_rows/class_row_file.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/files/sealed_text.h"
#include "tests/runtime/checkpoint/rows_run.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using xrun::testing::FailingIo;
using xrun::testing::read_file;
using xrun::testing::RowsModel;
using xrun::testing::RowsRun;
using xrun::testing::Sections;
using xrun::testing::small_rows;

class ClassRowFileTest : public ::testing::Test {
 protected:
  // Leaves the files of a run that is killed `after` steps after its checkpoint of step 5. Returns the rows that it had
  // then.
  Sections leave_killed(int after, ClassRowFileOptions options = {}) {
    FailingIo io(FailingIo::Fault::kKilled, 1'000'000);
    options.io = &io;
    RowsRun run(directory(), layout_, options);
    EXPECT_TRUE(run.begin().ok());
    for (int step = 0; step < 5; ++step) {
      EXPECT_TRUE(run.step().ok());
    }
    EXPECT_TRUE(run.save().ok());
    for (int step = 0; step < after; ++step) {
      EXPECT_TRUE(run.step().ok());
    }
    io.kill_now();
    return run.contents();
  }

  RowsVersion version() const { return RowsRun::checkpoint_in(directory())->second; }
  std::string log_path() const { return path() + ".undo-" + version().log; }
  std::string directory() const { return directory_.path(); }
  std::string path() const { return directory() + "/rows.id"; }

  void write(const std::string& to, const std::string& bytes) const {
    std::ofstream(to, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(directory())) {
      found.push_back(entry.path().filename().string());
    }
    std::ranges::sort(found);
    return found;
  }

  // Expects that restoring is rejected and changes no byte of the rows, and returns the error.
  Error refusal(const RowsLayout& layout, const ClassRowFileOptions& options = {}) const {
    const std::string before = fs::is_regular_file(path()) ? read_file(path()) : "";
    const auto restored = ClassRowFile::restore(path(), layout, version(), options);
    EXPECT_FALSE(restored.ok());
    EXPECT_EQ(fs::is_regular_file(path()) ? read_file(path()) : "", before);
    return restored.ok() ? Error{} : restored.error();
  }

  void expect_checkpoint() const {
    RowsRun run(directory(), layout_);
    const Status begun = run.begin();
    ASSERT_TRUE(begun.ok()) << begun.error().message;
    EXPECT_EQ(run.at(), 5);
    EXPECT_EQ(run.contents(), RowsModel(layout_).at(5));
  }

  xrun::testing::TemporaryDirectory directory_;
  RowsLayout layout_ = small_rows();
};

TEST_F(ClassRowFileTest, RowsOfTheCheckpointAreRestoredAndTheRunContinues) {
  const Sections late = leave_killed(20);
  ASSERT_NE(late, RowsModel(layout_).at(5));
  expect_checkpoint();
  EXPECT_EQ(names(), (std::vector<std::string>{"manifest", "rows.id", "rows.id.undo-" + version().log}));
  // The log is empty now and records later changes, so the rows can be restored a second time.
  leave_killed(3);
  RowsRun run(directory(), layout_);
  ASSERT_TRUE(run.begin().ok());
  EXPECT_EQ(run.at(), 10);
  EXPECT_EQ(run.contents(), RowsModel(layout_).at(10));
}

TEST_F(ClassRowFileTest, NothingIsLoggedBeforeTheFirstCheckpoint) {
  RowsRun run(directory(), layout_);
  ASSERT_TRUE(run.begin().ok());
  ASSERT_TRUE(run.step().ok());
  EXPECT_EQ(run.file().log_bytes(), 0);
  EXPECT_EQ(names(), std::vector<std::string>{"rows.id"});
  EXPECT_EQ(run.contents(), RowsModel(layout_).at(1));
}

TEST_F(ClassRowFileTest, TheDiskSpaceOfTheLayoutIsReserved) {
  RowsRun run(directory(), layout_);
  ASSERT_TRUE(run.begin().ok());
  struct stat info {};
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_size, layout_.file_bytes());
  EXPECT_GE(info.st_blocks * 512, layout_.file_bytes()) << "the room is not reserved";
  ASSERT_TRUE(run.save().ok());
  std::vector<bool> changed(static_cast<size_t>(layout_.rows));
  for (int64_t step = 1; step <= 200; ++step) {
    for (const int32_t row : xrun::testing::rows_of_step(layout_, step, 60)) {
      changed[static_cast<size_t>(row)] = true;
    }
    ASSERT_TRUE(run.step().ok());
    const int64_t rows = std::ranges::count(changed, true);
    ASSERT_LE(run.file().log_bytes(), layout_.undo_bytes(rows, step));
    ASSERT_GE(run.file().log_bytes(), rows * layout_.row_bytes());
  }
  EXPECT_LT(run.file().log_bytes(), layout_.undo_bytes(layout_.rows, 200)) << "a row is logged once";
  // 300 million rows of fp8 with a scale have 20 GB, and need 38 MiB of memory to mark the rows that are logged.
  const RowsLayout large{
      .tensor = "sku.weight", .rows = 300'000'000, .sections = {{"weight", "f8e4m3", 64}, {"scale", "f32", 4}}};
  EXPECT_EQ(large.file_bytes(), 20'400'111'616);
  EXPECT_LT(large.memory_bytes(), 46 * kMiB);
  EXPECT_LT(large.undo_bytes(10'000'000, 100), 721'000'000);
}

TEST_F(ClassRowFileTest, ManyRowsAreLoggedInSeveralRecords) {
  layout_ = small_rows(300'000);
  {
    FailingIo io(FailingIo::Fault::kKilled, 1'000'000);
    RowsRun run(directory(), layout_, {.io = &io}, 290'000);
    ASSERT_TRUE(run.begin().ok());
    ASSERT_TRUE(run.step().ok());
    ASSERT_TRUE(run.save().ok());
    ASSERT_GT(xrun::testing::rows_of_step(layout_, 2, 290'000).size() +
                  xrun::testing::rows_of_step(layout_, 3, 290'000).size(),
              static_cast<size_t>(layout_.rows_of_record()));
    ASSERT_TRUE(run.step().ok());
    ASSERT_TRUE(run.step().ok());
    io.kill_now();
  }
  RowsRun run(directory(), layout_);
  ASSERT_TRUE(run.begin().ok());
  EXPECT_EQ(run.contents(), RowsModel(layout_, 290'000).at(1));
}

// For each n, all system calls after the n-th fail. The files must then hold a checkpoint: the one that was
// announced last, or the one that was being saved.
TEST_F(ClassRowFileTest, AKillOrAFullDiskAtAnyCallLeavesACheckpoint) {
  for (const auto fault : {FailingIo::Fault::kKilled, FailingIo::Fault::kFull}) {
    int64_t call = 1;
    for (bool failed = true; failed; ++call) {
      SCOPED_TRACE(std::to_string(call) + (fault == FailingIo::Fault::kFull ? " full" : " killed"));
      const xrun::testing::TemporaryDirectory directory;
      FailingIo io(fault, call);
      int64_t announced = 0;
      {
        RowsRun run(directory.path(), layout_, {.durable = call % 2 == 0, .io = &io});
        Status done = run.begin();
        for (int step = 1; done.ok() && step <= 12; ++step) {
          done = run.step();
          if (done.ok() && step % 4 == 0) {
            done = run.save();
            announced = done.ok() ? run.at() : announced;
          }
        }
        failed = io.has_failed();
        ASSERT_TRUE(done.ok() == !failed || announced == 12) << "only the removal of an old log may fail unseen";
        if (!done.ok()) {
          EXPECT_EQ(done.error().code, "XG0711") << done.error().message;
          EXPECT_EQ(done.error().kind, ErrorKind::kWorld);
        }
        io.kill_now();
      }
      const auto checkpoint = RowsRun::checkpoint_in(directory.path());
      ASSERT_GE(checkpoint ? checkpoint->first : 0, announced);
      // Restoring also fails at each of its calls in turn.
      for (int64_t again = 1; checkpoint && again < 20; ++again) {
        FailingIo other(FailingIo::Fault::kKilled, again);
        RowsRun run(directory.path(), layout_, {.io = &other});
        static_cast<void>(run.begin());
        other.kill_now();
      }
      RowsRun run(directory.path(), layout_);
      const Status begun = run.begin();
      if (fault == FailingIo::Fault::kFull && !begun.ok()) {
        // The checkpoint was not announced, but its manifest may have been written. In that case it has no log.
        ASSERT_GT(checkpoint->first, announced);
        EXPECT_EQ(begun.error().code, "XG0710");
        continue;
      }
      ASSERT_TRUE(begun.ok()) << begun.error().message;
      RowsModel model(layout_);
      EXPECT_EQ(run.contents(), model.at(run.at()));
      ASSERT_TRUE(run.step().ok());
      ASSERT_TRUE(run.save().ok());
      EXPECT_EQ(run.contents(), model.at(run.at()));
    }
    EXPECT_GT(call, fault == FailingIo::Fault::kFull ? 20 : 40);
  }
}

TEST_F(ClassRowFileTest, ASaveThatFailsLeavesTheLogInUse) {
  leave_killed(0);
  {
    FailingIo io(FailingIo::Fault::kKilled, 1'000'000);
    RowsRun run(directory(), layout_, {.io = &io});
    ASSERT_TRUE(run.begin().ok());
    ASSERT_TRUE(run.step().ok());
    ASSERT_TRUE(run.file().prepare_checkpoint(6).ok());
    EXPECT_EQ(names().size(), 4u);
    ASSERT_TRUE(run.file().give_up_checkpoint().ok());
    EXPECT_EQ(names().size(), 3u);
    ASSERT_TRUE(run.step().ok());
    io.kill_now();
  }
  expect_checkpoint();
}

TEST_F(ClassRowFileTest, RowsAreRestoredAfterAPowerCutOnlyIfTheLogIsComplete) {
  ClassRowFileOptions other;
  other.owner.boot = std::string(kBootDigits, 'e');
  // Rows have changed, and the log may have lost records of them.
  leave_killed(2);
  const Error error = refusal(layout_, other);
  EXPECT_EQ(error.code, "XG0717");
  EXPECT_EQ(error.kind, ErrorKind::kWorld);
  EXPECT_THAT(error.message, HasSubstr("since step 5 may be lost"));
  expect_checkpoint();  // the system was not restarted, so the log is complete
  // A run that ends normally closes its log.
  {
    RowsRun run(directory(), layout_);
    ASSERT_TRUE(run.begin().ok() && run.step().ok() && run.step().ok());
  }
  EXPECT_TRUE(ClassRowFile::restore(path(), layout_, version(), other).ok());
  expect_checkpoint();
  // No row has changed since the checkpoint, so nothing is needed from the log.
  EXPECT_TRUE(ClassRowFile::restore(path(), layout_, version(), other).ok());
  // A durable log is complete after a power cut.
  leave_killed(0);
  fs::remove(directory() + "/manifest");
  leave_killed(2, {.durable = true});
  const std::string whole = read_file(log_path());
  write(log_path(), whole + std::string(100, '\0'));
  EXPECT_EQ(refusal(layout_).code, "XG0710") << "a kill leaves no zeros";
  EXPECT_TRUE(ClassRowFile::restore(path(), layout_, version(), other).ok());
  expect_checkpoint();
  // If a system does not report its boot id, it is always treated as restarted.
  fs::remove(directory() + "/manifest");
  ClassRowFileOptions nobody;
  nobody.owner.boot = std::string(kBootDigits, '0');
  leave_killed(2, nobody);
  EXPECT_EQ(refusal(layout_, nobody).code, "XG0717");
}

TEST_F(ClassRowFileTest, ADurableLogDamagedInTheMiddleIsDetectedAfterAPowerCut) {
  leave_killed(6, {.durable = true});
  const std::string whole = read_file(log_path());
  ClassRowFileOptions other;
  other.owner.boot = std::string(kBootDigits, 'e');
  std::string bytes = whole;
  bytes[static_cast<size_t>(kUndoHeaderBytes) + 200] ^= 1;
  write(log_path(), bytes);
  EXPECT_EQ(refusal(layout_, other).code, "XG0710");
  bytes = whole;
  bytes[static_cast<size_t>(kUndoHeaderBytes) + 20] ^= 1;  // a byte of the record's header
  write(log_path(), bytes);
  EXPECT_EQ(refusal(layout_, other).code, "XG0710");
}

TEST_F(ClassRowFileTest, AnyFlippedBitOfALogIsDetected) {
  leave_killed(3);
  const std::string whole = read_file(log_path());
  for (size_t at = 0; at < whole.size(); at += at < 400 ? 1 : 13) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    write(log_path(), bytes);
    ASSERT_THAT(refusal(layout_).code, AnyOf("XG0710", "XG0714")) << "byte " << at;
  }
  write(log_path(), whole);
  expect_checkpoint();
}

// A kill during a write leaves a part of a record. Its rows have not changed yet.
TEST_F(ClassRowFileTest, AnIncompleteRecordIsNotUsed) {
  leave_killed(3);
  const std::string rows = read_file(path());
  const std::string log = read_file(log_path());
  Bytes end = 0;
  {
    RowsRun run(directory(), layout_);
    ASSERT_TRUE(run.begin().ok());
    const auto changed = static_cast<int64_t>(xrun::testing::rows_of_step(layout_, 6, 60).size());
    end = kUndoHeaderBytes + layout_.record_bytes(changed);
  }
  // The log holds the first of three records and a part of the second. Only the rows of the first record are restored.
  std::string partly;
  for (Bytes bytes = end; bytes < end + 500; bytes += bytes < end + 90 ? 1 : 37) {
    write(path(), rows);
    write(log_path(), log.substr(0, static_cast<size_t>(bytes)));
    ASSERT_TRUE(ClassRowFile::restore(path(), layout_, version()).ok()) << bytes;
    partly = partly.empty() ? read_file(path()) : partly;
    ASSERT_EQ(read_file(path()), partly) << bytes;
  }
  EXPECT_NE(partly, rows);
}

TEST_F(ClassRowFileTest, AnyFlippedBitOfAHeaderIsDetected) {
  const std::string text = print_class_row_header({draw_id(), layout_});
  ASSERT_EQ(static_cast<Bytes>(text.size()), kClassRowHeaderBytes);
  const auto parse = [](const std::string& bytes) {
    return parse_class_row_header(std::as_bytes(std::span(bytes)), "rows.id");
  };
  ASSERT_TRUE(parse(text).ok());
  EXPECT_EQ(parse(text)->layout, layout_);
  for (size_t at = 0; at < text.size(); at += at < 400 ? 1 : 97) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = text;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      const auto parsed = parse(bytes);
      ASSERT_FALSE(parsed.ok()) << at;
      ASSERT_THAT(parsed.error().code, AnyOf("XG0710", "XG0714"));
    }
  }
  for (const size_t bytes : {0, 5, 100, 65'535}) {
    EXPECT_EQ(parse(text.substr(0, bytes)).error().code, "XG0710") << bytes;
  }
  EXPECT_EQ(parse("xrun rows 2\n").error().code, "XG0714");
  // These lines are not a header, even with a valid digest.
  for (const char* lines : {"xrun rows 1\n", "xrun rows 1\nid x\ntensor t\nrow_begin 0\nrows 1\nsection a b 1\n"}) {
    EXPECT_EQ(parse(seal(lines, static_cast<size_t>(kClassRowHeaderBytes))).error().code, "XG0710");
  }
}

TEST_F(ClassRowFileTest, FilesWithAnotherLayoutAreRefused) {
  leave_killed(3);
  RowsLayout other = layout_;
  other.rows += 1;
  Error error = refusal(other);
  EXPECT_EQ(error.code, "XG0702");
  EXPECT_THAT(error.message, HasSubstr("has rows 500..3500, but the run needs 500..3501"));
  other = layout_;
  other.sections[0].row_bytes = 48;
  error = refusal(other);
  EXPECT_EQ(error.code, "XG0702");
  EXPECT_THAT(error.message, HasSubstr("weight f8e4m3 (24 bytes a row)"));
  other = layout_;
  other.tensor = "other.weight";
  EXPECT_EQ(refusal(other).code, "XG0702");
  expect_checkpoint();
}

TEST_F(ClassRowFileTest, BrokenFilesAndFilesOfAnotherRunAreRefused) {
  leave_killed(3);
  const std::string rows = read_file(path());
  const std::string log = read_file(log_path());
  const auto expect = [&](std::string_view code, std::string_view words) {
    const Error error = refusal(layout_);
    EXPECT_EQ(error.code, code) << error.message;
    EXPECT_THAT(error.message, HasSubstr(std::string(words)));
    EXPECT_FALSE(error.help.empty());
    write(path(), rows);
    write(log_path(), log);
  };
  write(path(), rows.substr(0, rows.size() - 1));
  expect("XG0710", "bytes, not");
  write(path(), rows.substr(0, 1000));
  expect("XG0710", "cut short");
  write(path(), "");
  expect("XG0710", "not a rows file");
  fs::remove(path());
  expect("XG0710", "is missing");
  fs::remove(log_path());
  expect("XG0710", "the rows now belong to another checkpoint");
  write(log_path(), log.substr(0, 100));
  expect("XG0710", "cut short");
  // The log belongs to another file or another run.
  const auto header = parse_undo_header(std::as_bytes(std::span(log)), "log").value();
  UndoHeader other = header;
  other.rows = draw_id();
  write(log_path(), print_undo_header(other));
  expect("XG0710", "undo log of another file");
  write(path(), print_class_row_header({draw_id(), layout_}) + rows.substr(static_cast<size_t>(kClassRowHeaderBytes)));
  expect("XG0710", "belongs to another run");
  std::string later = log;
  later.replace(later.find("undo 1"), 6, "undo 2");
  write(log_path(), later);
  expect("XG0714", "has version 2");
  // Links are not followed, and pipes and directories are not opened.
  fs::rename(path(), path() + ".moved");
  fs::create_symlink(path() + ".moved", path());
  EXPECT_EQ(refusal(layout_).code, "XG0711");
  EXPECT_EQ(ClassRowFile::create(path(), layout_).error().code, "XG0711");
  fs::remove(path());
  fs::create_directory(path());
  EXPECT_EQ(refusal(layout_).code, "XG0711");
  EXPECT_EQ(ClassRowFile::create(path(), layout_).error().code, "XG0711");
  fs::remove(path());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(refusal(layout_).code, "XG0711");
  fs::remove(path());
  fs::rename(path() + ".moved", path());
  expect_checkpoint();
}

TEST_F(ClassRowFileTest, AFileBelongsToOneProcessAtATime) {
  leave_killed(3);
  {
    RowsRun run(directory(), layout_);
    ASSERT_TRUE(run.begin().ok());
    EXPECT_EQ(refusal(layout_).code, "XG0712");
    EXPECT_EQ(ClassRowFile::create(path(), layout_).error().code, "XG0712");
  }
  // On a file system without locks, the owner is read from the log.
  class Unlocked final : public Io {
    int lock(int /*file*/) override { return ENOLCK; }
  } io;
  EXPECT_EQ(refusal(layout_, {.io = &io}).code, "XG0712");
  const std::string log = read_file(log_path());
  UndoHeader header = parse_undo_header(std::as_bytes(std::span(log)), "log").value();
  header.owner.start += 1;  // another start time, so the owner seems to have ended
  write(log_path(), print_undo_header(header) + log.substr(static_cast<size_t>(kUndoHeaderBytes)));
  EXPECT_TRUE(ClassRowFile::restore(path(), layout_, version(), {.io = &io}).ok());
}

TEST_F(ClassRowFileTest, AFileIsMadeCompletelyOrNotAtAll) {
  class Full final : public Io {
    int reserve(int /*file*/, int64_t /*bytes*/) override { return ENOSPC; }
  } full;
  Error error = ClassRowFile::create(path(), layout_, {.io = &full}).error();
  EXPECT_EQ(error.code, "XG0711");
  EXPECT_THAT(error.message, HasSubstr("No space left on device (the rows need 320.0 KiB)"));
  EXPECT_THAT(error.help, HasSubstr("free some space"));
  EXPECT_TRUE(names().empty());
  class ReadOnly final : public Io {
    int open(const std::string& name, int flags) override {
      return (flags & O_ACCMODE) != O_RDONLY ? -EROFS : Io::open(name, flags);
    }
  } read_only;
  EXPECT_EQ(ClassRowFile::create(path(), layout_, {.io = &read_only}).error().code, "XG0711");
  leave_killed(3);
  error = refusal(layout_, {.io = &read_only});
  EXPECT_EQ(error.code, "XG0711");
  EXPECT_THAT(error.message, HasSubstr("Read-only file system"));
  // A file of another kind is not overwritten. A rows file is overwritten, and its logs are removed.
  const std::string log = log_path();
  ASSERT_TRUE(ClassRowFile::create(path(), layout_).ok());
  EXPECT_FALSE(fs::exists(log));
  EXPECT_EQ(refusal(layout_).code, "XG0710");
  write(path(), "my notes");
  EXPECT_EQ(ClassRowFile::create(path(), layout_).error().code, "XG0711");
  EXPECT_EQ(read_file(path()), "my notes");
  EXPECT_EQ(ClassRowFile::create(directory() + "/nowhere/rows", layout_).error().code, "XG0711");
}

// If a log claims to be larger than its file, no memory is reserved for that size.
TEST_F(ClassRowFileTest, ALogThatClaimsAHugeSizeIsRefused) {
  leave_killed(1);
  std::string log = read_file(log_path());
  const uint64_t much = uint64_t{1} << 60;
  log.replace(static_cast<size_t>(kUndoHeaderBytes) + 40, 8, reinterpret_cast<const char*>(&much), 8);
  write(log_path(), log);
  EXPECT_EQ(refusal(layout_).code, "XG0710");
}

}  // namespace
}  // namespace xrun::runtime
