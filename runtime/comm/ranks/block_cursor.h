// A position in a stream; a stream is a sequence of memory blocks. Empty blocks are skipped.
#pragma once

#include <algorithm>
#include <vector>

#include "graph/base/check.h"
#include "runtime/comm/communicator.h"

namespace xrun::runtime {

struct BlockCursor {
  std::vector<Block> blocks;
  size_t block = 0;
  Bytes done = 0;    // bytes of the current block before the position
  Bytes passed = 0;  // bytes of the stream before the position

  bool over() const { return block == blocks.size(); }
  void rewind() {
    block = 0;
    done = 0;
    passed = 0;
    skip();
  }
  // The number of bytes of the stream after the position, but at most `most`.
  Bytes left(Bytes most) const {
    Bytes bytes = -done;
    for (size_t i = block; i < blocks.size() && bytes < most; ++i) {
      bytes += blocks[i].bytes;
    }
    return std::min(bytes, most);
  }
  // Moves the position forward by `bytes`, and calls body(block, offset in its memory, length) for each piece of a
  // block that it passes.
  template <typename Body>
  void advance(Bytes bytes, const Body& body) {
    while (bytes > 0) {
      XRUN_CHECK(!over(), "more bytes came than the exchange has");
      const Block& at = blocks[block];
      const Bytes part = std::min(bytes, at.bytes - done);
      body(at, at.offset + done, part);
      done += part;
      passed += part;
      bytes -= part;
      skip();
    }
  }

 private:
  void skip() {
    while (!over() && done == blocks[block].bytes) {
      ++block;
      done = 0;
    }
  }
};

}  // namespace xrun::runtime
