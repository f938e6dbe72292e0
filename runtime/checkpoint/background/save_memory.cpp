#include "runtime/checkpoint/background/save_memory.h"

#include <algorithm>
#include <iterator>

namespace xrun::runtime {

SaveMemory::SaveMemory(int chunks, Bytes staging)
    : chunks_(static_cast<size_t>(std::max(chunks, 1))),
      bytes_(staging / 64 * 64),
      staging_(std::make_unique<std::byte[]>(static_cast<size_t>(staging))) {
  pages_.reserve(static_cast<size_t>(staging / kPage));
}

std::vector<std::byte> SaveMemory::take_chunk() {
  std::unique_lock lock(mutex_);
  given_back_.wait(lock, [&] { return !chunks_.empty(); });
  std::vector<std::byte> chunk = std::move(chunks_.back());
  chunks_.pop_back();
  return chunk;
}

void SaveMemory::give_back(std::vector<std::byte> chunk) {
  {
    const std::lock_guard lock(mutex_);
    chunks_.push_back(std::move(chunk));
  }
  given_back_.notify_one();
}

void SaveMemory::reset() {
  const std::lock_guard lock(mutex_);
  taken_ = 0;
  paged_ = 0;
  pages_.clear();
}

std::byte* SaveMemory::take(Bytes bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > bytes_ - taken_ - paged_) {
    return nullptr;
  }
  std::byte* const place = staging_.get() + taken_;
  taken_ += bytes;
  return place;
}

std::byte* SaveMemory::take_page() {
  const std::lock_guard lock(mutex_);
  if (!pages_.empty()) {
    std::byte* const page = pages_.back();
    pages_.pop_back();
    return page;
  }
  if (kPage > bytes_ - taken_ - paged_) {
    return nullptr;
  }
  paged_ += kPage;
  return staging_.get() + (bytes_ - paged_);
}

void SaveMemory::give_back_page(std::byte* page) {
  const std::lock_guard lock(mutex_);
  pages_.push_back(page);
}

bool SaveMemory::is_scarce() {
  const std::lock_guard lock(mutex_);
  return taken_ + paged_ - kPage * std::ssize(pages_) > bytes_ / 2;
}

}  // namespace xrun::runtime
