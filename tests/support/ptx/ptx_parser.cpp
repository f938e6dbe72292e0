// Parses modules: versions, targets, files, variables and the heads of kernels.
//   module    = { ".version" N | ".target" words | ".address_size" 64 | ".file" N string | section | variable | entry }
//   entry     = [".visible"] ".entry" name "(" parameters ")" { ".maxntid" N "," N "," N | ... } body
// Tests: tests/ptx/parser_test.cpp
#include "tests/support/ptx/ptx_parser.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "tests/support/ptx/decoder.h"

namespace xrun::ptx {

namespace {

constexpr size_t kMostKernels = 1024;
constexpr size_t kMostVariables = 1024;
constexpr size_t kMostShared = 64;

class ModuleParser {
 public:
  ModuleParser(const std::vector<Token>& tokens, Module& module) : at_(tokens), module_(module) {}

  Status parse() {
    while (at_.peek().kind != TokenKind::kEnd) {
      XRUN_TRY(item());
    }
    if (module_.target.empty()) {
      return text_error(1, "the text has no `.target`", "give a text that nvcc -ptx or LLVM's NVPTX back end wrote");
    }
    uint64_t address = kModuleBase;
    for (Variable& variable : module_.variables) {
      address = (address + variable.align - 1) / variable.align * variable.align;
      variable.address = address;
      address += variable.bytes + kGap;
    }
    for (Kernel& kernel : module_.kernels) {
      place_arrays(kernel);
    }
    return {};
  }

 private:
  // Free bytes after each variable, so that an index that is too large meets no other variable.
  static constexpr uint64_t kGap = 4096;

  Status item() {
    if (at_.at_word(".version")) {
      at_.take();
      at_.take();
    } else if (at_.at_word(".target")) {
      at_.take();
      XRUN_ASSIGN(const std::string_view target, at_.word("a target"));
      module_.target = target;
      while (at_.accept(',')) {
        at_.take();
      }
    } else if (at_.at_word(".address_size")) {
      at_.take();
      XRUN_ASSIGN(const uint64_t bits, at_.number());
      if (bits != 64) {
        return at_.error("addresses have 64 bits");
      }
    } else if (at_.at_word(".file")) {
      at_.take();
      XRUN_ASSIGN(const uint64_t number, at_.number());
      std::string path(at_.take().text);
      std::erase(path, '"');
      module_.files[number] = path.substr(path.rfind('/') + 1);
      while (at_.accept(',')) {
        XRUN_TRY(at_.number());
      }
    } else if (at_.at_word(".section")) {
      at_.take();
      at_.take();
      return at_.skip_block();
    } else if (at_.at_word(".visible") || at_.at_word(".extern") || at_.at_word(".weak")) {
      at_.take();
    } else if (at_.at_word(".entry")) {
      return entry();
    } else if (at_.at_word(".shared") || at_.at_word(".global") || at_.at_word(".const")) {
      return variable();
    } else if (at_.at_word(".func")) {
      return function();
    } else {
      return at_.error(fmt::format("no part of a module begins with `{}`", at_.peek().text));
    }
    return {};
  }

  // Skips a function. Kernels that call functions are refused.
  Status function() {
    while (!at_.at_sign('{') && !at_.accept(';')) {
      if (at_.peek().kind == TokenKind::kEnd) {
        return at_.error("a function is not closed");
      }
      at_.take();
    }
    return at_.at_sign('{') ? at_.skip_block() : Status();
  }

  Status variable() {
    const std::string_view name = at_.take().text;
    const Space space = name == ".shared" ? Space::kShared : name == ".global" ? Space::kGlobal : Space::kConst;
    XRUN_ASSIGN(auto made, parse_variable(at_, space, bytes_left_));
    (space == Space::kShared ? shared_ : module_.variables).push_back(std::move(made));
    if (module_.variables.size() > kMostVariables || shared_.size() > kMostShared) {
      return at_.error("the module has more than 1024 variables, or 64 shared arrays");
    }
    return at_.expect(';');
  }

  Status entry() {
    if (module_.kernels.size() >= kMostKernels) {
      return at_.error("the module has more than 1024 kernels");
    }
    Kernel kernel;
    kernel.line = at_.take().line;
    XRUN_ASSIGN(const std::string_view name, at_.word("the name of a kernel"));
    kernel.name = name;
    if (at_.accept('(')) {
      while (!at_.accept(')')) {
        if (!at_.at_word(".param")) {
          return at_.error("a parameter begins with `.param`");
        }
        at_.take();
        XRUN_ASSIGN(auto parameter, parse_variable(at_, Space::kParam, bytes_left_));
        kernel.parameter_bytes = (kernel.parameter_bytes + parameter.align - 1) / parameter.align * parameter.align;
        parameter.address = kParamBase + kernel.parameter_bytes;
        kernel.parameter_bytes += parameter.bytes;
        kernel.parameters.push_back(std::move(parameter));
        if (kernel.parameter_bytes > 32764) {
          return at_.error("a kernel has at most 32764 bytes of parameters");
        }
        if (!at_.accept(',') && !at_.at_sign(')')) {
          return at_.error("`,` or `)` is missing after a parameter");
        }
      }
    }
    while (at_.peek().kind == TokenKind::kWord) {
      XRUN_TRY(bound(kernel));
    }
    const char* const begin = at_.peek().text.data();
    XRUN_TRY(parse_body(at_, module_.text, kernel));
    take_shared({begin, static_cast<size_t>(at_.peek().text.data() - begin)}, kernel);
    module_.kernels.push_back(std::move(kernel));
    return {};
  }

  // Adds the shared arrays of the module that the body names: a kernel has no memory for the others.
  void take_shared(std::string_view body, Kernel& kernel) const {
    const auto is_part = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
    };
    std::vector<Variable> used;
    for (const Variable& variable : shared_) {
      for (size_t at = body.find(variable.name); at != std::string_view::npos; at = body.find(variable.name, at + 1)) {
        const size_t end = at + variable.name.size();
        if ((at == 0 || !is_part(body[at - 1])) && (end == body.size() || !is_part(body[end]))) {
          used.push_back(variable);
          break;
        }
      }
    }
    kernel.shared.insert(kernel.shared.begin(), used.begin(), used.end());
  }

  // `.maxntid 128, 1, 1` and other bounds of a launch. The counts of registers and blocks are for ptxas.
  Status bound(Kernel& kernel) {
    const std::string_view name = at_.take().text;
    if (name != ".maxntid" && name != ".reqntid" && name != ".minnctapersm" && name != ".maxnreg") {
      return at_.error(fmt::format("the machine does not support the bound `{}` of a kernel", name));
    }
    std::array<uint32_t, 3> threads{1, 1, 1};
    size_t dimension = 0;
    do {
      XRUN_ASSIGN(const uint64_t count, at_.number());
      threads[std::min<size_t>(dimension++, 2)] = static_cast<uint32_t>(std::min<uint64_t>(count, 1 << 20));
    } while (at_.accept(','));
    if (name == ".maxntid" || name == ".reqntid") {
      kernel.most_threads = threads;
      kernel.exact_threads = name == ".reqntid";
    }
    return {};
  }

  // The static arrays are placed with gaps; the dynamic ones begin together after them.
  static void place_arrays(Kernel& kernel) {
    place_local(kernel);
    uint64_t address = kSharedStart;
    for (Variable& variable : kernel.shared) {
      if (variable.bytes == 0) {
        continue;
      }
      const uint64_t align = std::max<uint64_t>(variable.align, 128);
      address = (address + align - 1) / align * align;
      variable.address = address;
      address += variable.bytes + kGap;
      kernel.shared_bytes = (kernel.shared_bytes + variable.align - 1) / variable.align * variable.align;
      kernel.shared_bytes += variable.bytes;
    }
    address = (address + 1023) / 1024 * 1024;
    for (Variable& variable : kernel.shared) {
      variable.address = variable.bytes == 0 ? address : variable.address;
    }
  }

  static void place_local(Kernel& kernel) {
    uint64_t address = kLocalBase + kSharedStart;
    for (Variable& variable : kernel.local) {
      const uint64_t align = std::max<uint64_t>(variable.align, 16);
      address = (address + align - 1) / align * align;
      variable.address = address;
      address += variable.bytes + kGap;
      kernel.local_bytes += (variable.bytes + 7) / 8 * 8;
    }
  }

  Cursor at_;
  Module& module_;
  std::vector<Variable> shared_;
  uint64_t bytes_left_ = uint64_t{64} << 20;
};

}  // namespace

bool Cursor::accept(char sign) {
  if (!at_sign(sign)) {
    return false;
  }
  take();
  return true;
}

Status Cursor::expect(char sign) {
  if (!accept(sign)) {
    return error(fmt::format("`{}` is missing before `{}`", sign, peek().text));
  }
  return {};
}

Result<uint64_t> Cursor::number() {
  if (peek().kind != TokenKind::kNumber) {
    return error(fmt::format("`{}` is not an integer", peek().text));
  }
  return take().bits;
}

Result<std::string_view> Cursor::word(const char* what) {
  if (peek().kind != TokenKind::kWord) {
    return error(fmt::format("{} is missing before `{}`", what, peek().text));
  }
  return take().text;
}

Status Cursor::skip_block() {
  XRUN_TRY(expect('{'));
  for (int depth = 1; depth > 0;) {
    if (peek().kind == TokenKind::kEnd) {
      return error("a block is not closed");
    }
    depth += at_sign('{') ? 1 : at_sign('}') ? -1 : 0;
    take();
  }
  return {};
}

Error Cursor::error(std::string cause, std::string help) const {
  return text_error(peek().line, std::move(cause), std::move(help));
}

Status parse(Module& module) {
  XRUN_ASSIGN(const auto tokens, tokens_of(module.text));
  return ModuleParser(tokens, module).parse();
}

const Kernel* Module::find(std::string_view name) const {
  const auto found = std::ranges::find(kernels, name, &Kernel::name);
  return found == kernels.end() ? nullptr : &*found;
}

std::string Module::source_of(const Statement& statement) const {
  const auto file = files.find(static_cast<uint64_t>(statement.source_file));
  return file == files.end() ? "" : fmt::format("{}:{}", file->second, statement.source_line);
}

Result<std::unique_ptr<const Module>> load_module(std::string text) {
  auto module = std::make_unique<Module>();
  module->text = std::move(text);
  XRUN_TRY(parse(*module));
  for (Kernel& kernel : module->kernels) {
    XRUN_TRY(decode(*module, kernel));
  }
  return std::unique_ptr<const Module>(std::move(module));
}

}  // namespace xrun::ptx
