// Copies lists and texts out of a FlatBuffer whose content may be forged.
#pragma once

#include <cstdint>
#include <flatbuffers/flatbuffers.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace xrun::planner {

// Copies values out of a verified FlatBuffer. In a legal FlatBuffer, several references may refer to one vector, so a
// small file could cause huge copies. Therefore the reader counts the copied bytes and stops when they exceed the size
// of the file, which does not happen with a file that `encode_plan` has made.
class CountedReader {
 public:
  explicit CountedReader(size_t bytes) : budget_(bytes) {}

  bool ok() const { return ok_; }

 protected:
  bool take(size_t bytes) {
    ok_ = ok_ && bytes <= budget_;
    budget_ -= ok_ ? bytes : 0;
    return ok_;
  }

  std::string text(const flatbuffers::String* value) {
    return value != nullptr && take(value->size() + 4) ? value->str() : std::string();
  }

  // Whether the copy of a vector of structs or numbers stays within the count, and the elements are aligned as their
  // type requires, which the verifier of FlatBuffers does not check. FlatBuffers does not align an empty vector.
  template <typename Element, typename T>
  bool take_elements(const flatbuffers::Vector<T>* list) {
    ok_ = ok_ && (list->size() == 0 || reinterpret_cast<uintptr_t>(list->Data()) % alignof(Element) == 0);
    return take(size_t{list->size()} * sizeof(Element));
  }

  // Adds a value to a list; nullopt is an illegal value of the file.
  template <typename T>
  void add(std::vector<T>& list, std::optional<T> value) {
    ok_ = ok_ && value.has_value();
    if (value) {
      list.push_back(*std::move(value));
    }
  }

  // Calls a function for each table of a vector. Each table adds the smallest size that a table can have to the count
  // of copied bytes.
  template <typename T, typename F>
  void each(const flatbuffers::Vector<flatbuffers::Offset<T>>* list, F&& body) {
    for (flatbuffers::uoffset_t i = 0; list != nullptr && i < list->size() && take(8); ++i) {
      body(*list->Get(i));
    }
  }

  template <typename Out>
  std::vector<Out> ids(const flatbuffers::Vector<int32_t>* list) {
    std::vector<Out> out;
    if (list != nullptr && take_elements<int32_t>(list)) {
      out.reserve(list->size());
      for (const int32_t id : *list) {
        out.push_back(Out(id));
      }
    }
    return out;
  }

  std::vector<double> numbers(const flatbuffers::Vector<double>* list) {
    return list != nullptr && take_elements<double>(list) ? std::vector(list->begin(), list->end())
                                                          : std::vector<double>();
  }

  template <typename Enum>
  Enum value_of(uint8_t number, Enum last) {
    ok_ = ok_ && number <= static_cast<uint8_t>(last);
    return static_cast<Enum>(ok_ ? number : 0);
  }

  bool ok_ = true;

 private:
  size_t budget_;
};

}  // namespace xrun::planner
