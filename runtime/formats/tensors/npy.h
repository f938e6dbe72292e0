// Writes result files in NumPy's formats .npy and .npz (docs/reference/formats.md, "Embeddings").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/os/durable.h"

namespace xrun::runtime {

// An array: its type as NumPy writes it ("<f4", "<i8", "<U12"), its shape, and the bytes of its elements, row-major.
struct NpyArray {
  std::string name;  // name of the array in an archive
  std::string descr;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

// Returns the header of format version 1.0, padded so that the data begins at a multiple of 64.
std::string npy_header(const NpyArray& array);

// Texts as array elements of equal width: UTF-32, padded with zeros. A byte that is not UTF-8 becomes the text "\xE9".
struct NpyTexts {
  std::string descr;
  std::vector<char32_t> data;
};
// Converts texts. Errors: XG0901 the array would be larger than `most`: one long text widens all elements.
Result<NpyTexts> npy_texts(std::span<const std::string> texts, Bytes most);

// Writes a zip archive with NAME.npy for each array to the sink `to`. Arrays may have any size and are not copied;
// those that are not f32 are deflated. Errors: kWorld XG0901, also if `to` accepts no more bytes.
Status write_npz(std::span<const NpyArray> arrays, const ByteSink& to);

}  // namespace xrun::runtime
