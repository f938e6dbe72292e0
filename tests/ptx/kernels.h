// Kernels and launches that the tests of the PTX machine share.
#pragma once

#include <bit>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/golden.h"
#include "tests/support/ptx/launch.h"

namespace xrun::ptx {

// The module of a text; the running test fails if it is not accepted.
inline std::unique_ptr<const Module> module_of(std::string text) {
  auto module = load_module(std::move(text));
  if (!module.ok()) {
    ADD_FAILURE() << module.error().message << " " << module.error().help;
    return nullptr;
  }
  return std::move(module).value();
}

// A text of tests/golden/ptx.
inline std::string golden_text(const std::string& name) {
  return test::read_source_file("tests/golden/ptx/" + name + ".ptx");
}

// A module with one kernel `test` of four pointers, `.param .u64 p0` to `p3`, and the body.
inline std::string kernel_text(const std::string& body) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry test(.param .u64 p0, .param .u64 p1, "
         ".param .u64 p2, .param .u64 p3)\n{\n.reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<32>;\n.reg .f32 "
         "%f<16>;\n.reg .b64 %d<32>;\n.reg .f64 %e<8>;\n" +
         body + "ret;\n}\n";
}

// Adds a buffer with values.
template <class T>
uint64_t add(Memory& memory, const std::string& name, const std::vector<T>& values) {
  const uint64_t address = memory.add(name, values.size() * sizeof(T));
  memory.write(address, std::as_bytes(std::span(values)));
  return address;
}

// The first `count` values of a buffer.
template <class T>
std::vector<T> values_of(const Memory& memory, uint64_t address, size_t count) {
  std::vector<T> values(count);
  memory.read(address, std::as_writable_bytes(std::span(values)));
  return values;
}

// Replaces the occurrence with index `which` of `from`; the running test fails if there are fewer.
inline std::string replaced(std::string text, const std::string& from, const std::string& to, int which = 0) {
  size_t at = text.find(from);
  for (int i = 0; i < which && at != std::string::npos; ++i) {
    at = text.find(from, at + from.size());
  }
  if (at == std::string::npos) {
    ADD_FAILURE() << "the text has too few \"" << from << '"';
    return text;
  }
  return text.replace(at, from.size(), to);
}

// The seed of random operands; each test prints it on failure.
inline constexpr uint64_t kSeed = 20261130;

}  // namespace xrun::ptx
