#include "runtime/checkpoint/background/row_copies.h"

#include <algorithm>

namespace xrun::runtime {

RowCopies::RowCopies(const TrainState& state, const StateFile& file, SaveMemory& memory)
    : state_(state), file_(file), memory_(memory) {
  for (const StateTensor* tensor : file.tensors) {
    // Skips graphs of classes, which change only between two steps, and shifts, which were computed when the save
    // began.
    if (tensor->role != StateTensor::Role::kGraph && tensor->role != StateTensor::Role::kShift) {
      tensors_.emplace_back(tensor, row_bytes_);
      row_bytes_ += tensor->row_bytes();
    }
  }
  page_rows_ = SaveMemory::kPage / (row_bytes_ + static_cast<Bytes>(sizeof(int32_t)));
  copied_.resize(static_cast<size_t>((file.row_end - file.row_begin + 63) / 64));
}

bool RowCopies::keep(std::span<const int32_t> rows) {
  const auto first = std::ranges::lower_bound(rows, file_.row_begin);
  const auto last = std::lower_bound(first, rows.end(), file_.row_end);
  std::unique_lock lock(mutex_);
  for (auto row = first; row != last && !ended_; ++row) {
    part_read_.wait(lock, [&] { return *row < part_begin_ || *row >= part_end_; });
    if (ended_ || is_copied(*row)) {
      continue;
    }
    if ((pages_.empty() || pages_.back().count == page_rows_) && !add_page()) {
      return false;
    }
    Page& page = pages_.back();
    std::byte* const values = values_of(page, page.count);
    for (const auto& [tensor, offset] : tensors_) {
      state_.read_rows(*tensor, *row, *row + 1, values + offset);
    }
    rows_of(page)[page.count++] = *row;
    copied_[place_of(*row) / 64] |= uint64_t{1} << (place_of(*row) % 64);
    if (!values_.empty()) {
      values_[place_of(*row)] = values;
    }
  }
  return true;
}

bool RowCopies::add_page() {
  std::byte* const bytes = page_rows_ == 0 ? nullptr : memory_.take_page();
  if (bytes != nullptr) {
    pages_.push_back({bytes});
  }
  return bytes != nullptr;
}

// Reads in small parts, so that a step that changes a row seldom has to wait for the part that is being read.
void RowCopies::read(const StateTensor& tensor, int64_t row_begin, int64_t row_end, std::byte* out) {
  constexpr Bytes kPart = 16 * kKiB;
  const auto changing = std::ranges::find(tensors_, &tensor, [](const auto& one) { return one.first; });
  if (changing == tensors_.end()) {
    state_.read_rows(tensor, row_begin, row_end, out);
    return;
  }
  const Bytes width = tensor.row_bytes();
  const int64_t most = std::max<int64_t>(1, kPart / std::max<Bytes>(width, 1));
  for (int64_t row = row_begin; row < row_end; row += most) {
    read_part(tensor, changing->second, row, std::min(row_end, row + most), out + (row - row_begin) * width);
  }
}

void RowCopies::read_part(const StateTensor& tensor, Bytes offset, int64_t row_begin, int64_t row_end, std::byte* out) {
  const Bytes width = tensor.row_bytes();
  std::unique_lock lock(mutex_);
  find_values();
  const auto values = std::span(values_).subspan(place_of(row_begin), static_cast<size_t>(row_end - row_begin));
  part_begin_ = row_begin;
  part_end_ = row_end;
  lock.unlock();
  // While the part is being read, `keep` copies none of its rows, so these elements of `values_` do not change.
  for (int64_t row = row_begin; row < row_end;) {
    const auto value_at = [&](int64_t at) { return values[static_cast<size_t>(at - row_begin)]; };
    if (const std::byte* const copy = value_at(row); copy != nullptr) {
      std::copy_n(copy + offset, width, out + (row - row_begin) * width);
      ++row;
      continue;
    }
    int64_t last = row + 1;
    while (last < row_end && value_at(last) == nullptr) {
      ++last;
    }
    state_.read_rows(tensor, row, last, out + (row - row_begin) * width);
    row = last;
  }
  lock.lock();
  part_begin_ = part_end_ = 0;
  lock.unlock();
  part_read_.notify_all();
}

// Fills `values_` with the copies that were made so far. Called before the first part is read.
void RowCopies::find_values() {
  if (!values_.empty()) {
    return;
  }
  values_.resize(static_cast<size_t>(file_.row_end - file_.row_begin));
  for (const Page& page : pages_) {
    for (int64_t i = 0; i < page.count; ++i) {
      values_[place_of(rows_of(page)[i])] = values_of(page, i);
    }
  }
}

void RowCopies::end() {
  const std::lock_guard lock(mutex_);
  for (const Page& page : pages_) {
    memory_.give_back_page(page.bytes);
  }
  pages_ = {};
  values_ = {};
  ended_ = true;
}

}  // namespace xrun::runtime
