#include "runtime/checkpoint/store.h"

#include "graph/base/errors.h"
#include "runtime/checkpoint/directory_store.h"
#include "runtime/checkpoint/files/shared_directory.h"
#include "runtime/checkpoint/put_aside.h"
#include "runtime/checkpoint/resume_checks.h"

namespace xrun::runtime {

Status DirectoryStore::open_copies() {
  XRUN_ASSIGN(copies_, StepCopies::open(options_));
  return {};
}

namespace {

// The store of rank 0, or of a single process, which holds the lock.
Result<std::unique_ptr<DirectoryStore>> make_leading_store(const CheckpointOptions& options) {
  XRUN_TRY(make_room(options, options.directory));
  XRUN_ASSIGN(auto lock, DirectoryLock::take(options.directory, *options.io));
  const auto newest = newest_in(options.directory);
  // If the step that `latest` names is missing, it may be restored from second copies later.
  const bool may_be_copied = !options.copy.empty() && options.resume != "never";
  if (!newest.ok() && !(may_be_copied && newest.error().kind == ErrorKind::kContent)) {
    return newest.error();
  }
  if (options.resume == "never" && newest.ok() && *newest) {
    return would_write_over(options.directory, **newest);
  }
  auto store = std::make_unique<DirectoryStore>(options, std::move(lock));
  if (newest.ok() && *newest) {
    // If the checkpoint cannot be read, `resume` reports the error.
    const auto info = open_checkpoint(options.directory + "/" + **newest);
    if (info.ok()) {
      XRUN_TRY(check_digest(*info, options));
    }
  }
  return store;
}

Result<std::unique_ptr<DirectoryStore>> make_store(const CheckpointOptions& options) {
  if (options.peers == nullptr) {
    return make_leading_store(options);
  }
  std::unique_ptr<DirectoryStore> store;
  Status made;
  if (options.peers->rank() == 0) {
    auto leading = make_leading_store(options);
    if (leading.ok()) {
      store = std::move(leading).value();
    } else {
      made = std::move(leading).error();
    }
  } else {
    store = std::make_unique<DirectoryStore>(options, std::nullopt);
  }
  XRUN_TRY(options.peers->agree(std::move(made)));
  XRUN_TRY(check_same_directory(options.directory, *options.peers, *options.io));
  return store;
}

}  // namespace

Result<std::unique_ptr<CheckpointStore>> make_checkpoint_store(CheckpointOptions options) {
  const bool copies = !options.copy.empty();
  XRUN_ASSIGN(std::unique_ptr<DirectoryStore> store, make_store(options));
  if (copies) {
    XRUN_TRY(store->open_copies());
  }
  return std::unique_ptr<CheckpointStore>(std::move(store));
}

}  // namespace xrun::runtime
