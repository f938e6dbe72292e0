// Tests: tests/runtime/interchange/weights/stored_weights_test.cpp
#include "runtime/interchange/weights/byte_source.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <mutex>
#include <utility>
#include <zlib.h>

#include "runtime/formats/open_file.h"

namespace xrun::runtime {
namespace {

// A part of a RandomFile or of a PickleInput.
template <class File>
class Part : public ByteSource {
 public:
  Part(std::shared_ptr<const File> file, Bytes begin, Bytes bytes)
      : file_(std::move(file)), begin_(begin), bytes_(bytes) {}
  Bytes bytes() const override { return bytes_; }
  Status read(Bytes offset, std::span<std::byte> to) const override { return file_->read(begin_ + offset, to); }

 protected:
  Bytes begin() const { return begin_; }

 private:
  std::shared_ptr<const File> file_;
  Bytes begin_;
  Bytes bytes_;
};

class CheckedPart final : public Part<RandomFile> {
 public:
  CheckedPart(std::shared_ptr<const RandomFile> file, Bytes begin, Bytes bytes, uint32_t crc, std::string name,
              StopFlag stop)
      : Part(std::move(file), begin, bytes), crc_(crc), name_(std::move(name)), stop_(stop) {}
  Status read(Bytes offset, std::span<std::byte> to) const override {
    {
      const std::scoped_lock lock(mutex_);
      if (!is_checked_) {
        XRUN_TRY(check());
        is_checked_ = true;
      }
    }
    return Part::read(offset, to);
  }

 private:
  Status check() const {
    std::vector<std::byte> chunk(static_cast<size_t>(std::min<Bytes>(bytes(), kMiB)));
    uLong crc = 0;
    for (Bytes done = 0; done < bytes(); done += std::ssize(chunk)) {
      XRUN_TRY(check_stop(stop_));
      chunk.resize(static_cast<size_t>(std::min<Bytes>(bytes() - done, std::ssize(chunk))));
      XRUN_TRY(Part::read(done, chunk));
      crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(chunk.data()), chunk.size());
    }
    return crc == crc_ ? Status()
                       : broken_file(name_, fmt::format("the checksum of its {} bytes from byte {} on is wrong",
                                                        bytes(), begin()));
  }

  uint32_t crc_;
  std::string name_;
  StopFlag stop_;
  mutable std::mutex mutex_;
  mutable bool is_checked_ = false;
};

class JoinedBytes final : public ByteSource {
 public:
  explicit JoinedBytes(std::vector<Source> parts) : parts_(std::move(parts)) {
    for (const Source& part : parts_) {
      bytes_ += part->bytes();
    }
  }
  Bytes bytes() const override { return bytes_; }
  Status read(Bytes offset, std::span<std::byte> to) const override {
    for (const Source& part : parts_) {
      if (offset < part->bytes() && !to.empty()) {
        const auto now = to.first(static_cast<size_t>(std::min(part->bytes() - offset, std::ssize(to))));
        XRUN_TRY(part->read(offset, now));
        to = to.subspan(now.size());
        offset += std::ssize(now);
      }
      offset -= part->bytes();
    }
    return {};
  }

 private:
  std::vector<Source> parts_;
  Bytes bytes_ = 0;
};

class SourcePickle final : public PickleInput {
 public:
  SourcePickle(Source source, std::string name) : source_(std::move(source)), name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  Bytes bytes() const override { return source_->bytes(); }
  Status read(Bytes offset, std::span<std::byte> to) const override { return source_->read(offset, to); }

 private:
  Source source_;
  std::string name_;
};

class HeldPickle final : public PickleInput {
 public:
  HeldPickle(std::vector<std::byte> bytes, std::string name) : held_(std::move(bytes)), name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  Bytes bytes() const override { return std::ssize(held_); }
  Status read(Bytes offset, std::span<std::byte> to) const override {
    std::ranges::copy(std::span(held_).subspan(static_cast<size_t>(offset), to.size()), to.begin());
    return {};
  }

 private:
  std::vector<std::byte> held_;
  std::string name_;
};

}  // namespace

class UnpackedBytes {
 public:
  using Held = std::shared_ptr<const std::vector<std::byte>>;

  int new_owner() { return owners_++; }

  // The bytes of `owner`. Another thread that needs bytes waits while they are unpacked.
  Result<Held> get(int owner, const Unpack& unpack) {
    const std::scoped_lock lock(mutex_);
    if (owner_ != owner) {
      owner_ = kNobody;
      held_.reset();
      XRUN_ASSIGN(auto bytes, unpack());
      held_ = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
      owner_ = owner;
    }
    return held_;
  }

 private:
  static constexpr int kNobody = -1;

  std::mutex mutex_;
  int owner_ = kNobody;
  std::atomic<int> owners_ = 0;
  Held held_;
};

namespace {

class LateBytes final : public ByteSource {
 public:
  LateBytes(std::shared_ptr<UnpackedBytes> memory, std::string name, Bytes bytes, Unpack unpack)
      : memory_(std::move(memory)),
        owner_(memory_->new_owner()),
        name_(std::move(name)),
        bytes_(bytes),
        unpack_(std::move(unpack)) {}
  Bytes bytes() const override { return bytes_; }
  Status read(Bytes offset, std::span<std::byte> to) const override {
    XRUN_ASSIGN(const UnpackedBytes::Held held, memory_->get(owner_, unpack_));
    if (std::ssize(*held) != bytes_) {
      return broken_file(name_, fmt::format("{} bytes of data instead of {}", held->size(), bytes_));
    }
    std::ranges::copy(std::span(*held).subspan(static_cast<size_t>(offset), to.size()), to.begin());
    return {};
  }

 private:
  std::shared_ptr<UnpackedBytes> memory_;
  int owner_;
  std::string name_;
  Bytes bytes_;
  Unpack unpack_;
};

}  // namespace

Source bytes_of_file(std::shared_ptr<const RandomFile> file, Bytes begin, Bytes bytes) {
  return std::make_shared<Part<RandomFile>>(std::move(file), begin, bytes);
}

Source checked_bytes_of_file(std::shared_ptr<const RandomFile> file, Bytes begin, Bytes bytes, uint32_t crc,
                             std::string name, StopFlag stop) {
  return std::make_shared<CheckedPart>(std::move(file), begin, bytes, crc, std::move(name), stop);
}

Source bytes_of_pickle(std::shared_ptr<const PickleInput> input, Bytes begin, Bytes bytes) {
  return std::make_shared<Part<PickleInput>>(std::move(input), begin, bytes);
}

Source joined_bytes(std::vector<Source> parts) { return std::make_shared<JoinedBytes>(std::move(parts)); }

std::shared_ptr<UnpackedBytes> make_unpacked_bytes() { return std::make_shared<UnpackedBytes>(); }

Source unpacked_bytes(std::shared_ptr<UnpackedBytes> memory, std::string name, Bytes bytes, Unpack unpack) {
  return std::make_shared<LateBytes>(std::move(memory), std::move(name), bytes, std::move(unpack));
}

std::shared_ptr<const PickleInput> pickle_in_file(std::shared_ptr<const RandomFile> file, Bytes begin, Bytes bytes,
                                                  std::string name) {
  return std::make_shared<SourcePickle>(bytes_of_file(std::move(file), begin, bytes), std::move(name));
}

std::shared_ptr<const PickleInput> pickle_of_bytes(std::vector<std::byte> bytes, std::string name) {
  return std::make_shared<HeldPickle>(std::move(bytes), std::move(name));
}

}  // namespace xrun::runtime
