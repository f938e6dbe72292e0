// Tests: tests/cuda/planted_orders_test.cpp
#include "tests/support/cuda/pinned_pages.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "graph/base/check.h"

namespace xrun::cuda::fake {

namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

}  // namespace

std::string PinnedBuffer::place(const void* address) const {
  return fmt::format("{} + {}", name, static_cast<const std::byte*>(address) - begin);
}

PinnedPages::~PinnedPages() {
  while (!buffers_.empty()) {
    free(buffers_.front());
  }
}

PinnedBuffer* PinnedPages::allocate(const std::string& name, size_t bytes) {
  const size_t mapped = (bytes + kPage - 1) / kPage * kPage;
  const int file = memfd_create("xrun-pinned", MFD_CLOEXEC);
  if (file < 0) {
    return nullptr;
  }
  void* views[2] = {MAP_FAILED, MAP_FAILED};
  if (ftruncate(file, static_cast<off_t>(mapped)) == 0) {
    for (void*& view : views) {
      view = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
  }
  close(file);
  if (views[0] == MAP_FAILED || views[1] == MAP_FAILED) {
    return nullptr;
  }
  buffers_.push_back({.name = name,
                      .begin = static_cast<std::byte*>(views[0]),
                      .own = static_cast<std::byte*>(views[1]),
                      .bytes = bytes,
                      .mapped = mapped,
                      .uses = {}});
  return &buffers_.back();
}

void PinnedPages::free(PinnedBuffer& buffer) {
  munmap(buffer.begin, buffer.mapped);
  munmap(buffer.own, buffer.mapped);
  const std::byte* const begin = buffer.begin;
  buffers_.erase(std::ranges::find(buffers_, begin, &PinnedBuffer::begin));
}

PinnedBuffer* PinnedPages::find(const void* address, size_t bytes) {
  const auto found =
      std::ranges::find_if(buffers_, [&](const PinnedBuffer& buffer) { return buffer.contains(address, bytes); });
  return found == buffers_.end() ? nullptr : &*found;
}

void PinnedPages::begin_use(PinnedBuffer& buffer, const std::shared_ptr<HostUse>& use) {
  buffer.uses.push_back(use);
  protect(buffer);
}

void PinnedPages::end_uses(const Clock& clock) {
  for (PinnedBuffer& buffer : buffers_) {
    const size_t ended = std::erase_if(buffer.uses, [&](const std::shared_ptr<HostUse>& use) {
      return use->time != 0 && use->time <= clock.at(use->actor);
    });
    if (ended > 0) {
      protect(buffer);
    }
  }
}

bool PinnedPages::open(const void* address) {
  PinnedBuffer* const buffer = find(address, 1);
  if (buffer == nullptr) {
    return false;
  }
  const size_t page = static_cast<size_t>(static_cast<const std::byte*>(address) - buffer->begin) / kPage;
  return mprotect(buffer->begin + page * kPage, kPage, PROT_READ | PROT_WRITE) == 0;
}

void PinnedPages::protect(PinnedBuffer& buffer) {
  std::vector<int> pages(buffer.mapped / kPage, PROT_READ | PROT_WRITE);
  for (const auto& use : buffer.uses) {
    const auto begin = static_cast<size_t>(use->begin - buffer.begin);
    const bool whole = begin == 0 && use->bytes == buffer.bytes;
    const size_t first = (begin + kPage - 1) / kPage;
    const size_t last = whole ? pages.size() : (begin + use->bytes) / kPage;
    for (size_t page = first; page < last; ++page) {
      pages[page] &= use->writes ? PROT_NONE : PROT_READ;
    }
  }
  for (size_t page = 0; page < pages.size();) {
    size_t end = page + 1;
    while (end < pages.size() && pages[end] == pages[page]) {
      ++end;
    }
    XRUN_CHECK(mprotect(buffer.begin + page * kPage, (end - page) * kPage, pages[page]) == 0,
               "pages cannot be protected");
    page = end;
  }
}

}  // namespace xrun::cuda::fake
