#include "runtime/formats/pickle/pickle.h"

#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "tests/runtime/formats/pickle/pickles.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using std::string_literals::operator""s;

constexpr const char* kFiles[] = {"python2_p0", "python2_p1", "python2_p2", "python3_p0", "python3_p1",
                                  "python3_p2", "python3_p3", "python3_p4", "python3_p5"};

std::string file_of(const char* name) { return test_file(std::string("pickles/") + name + ".pkl"); }

TEST(Pickles, EachProtocolOfPython2And3GivesTheSameValues) {
  for (const char* name : kFiles) {
    const auto held = parse(file_of(name));
    EXPECT_EQ(
        show(*held),
        "[None, True, False, 0, 255, 256, 65536, -1, -1099511627776, 9223372036854775807, big, 0.1, inf, b, "
        "b00ff27225c0a41, '', 'h\u00e9\u4e2d\\u0041\n', (), (1), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], [1], [1, 2], "
        "{}, {'a', 1}, {'k', [2]}, {7}, {8}, [1], [1]]")
        << name;
    ASSERT_TRUE(held->parsed.ok());
    const auto& items = held->pickle()[held->pickle().root()].items;
    EXPECT_EQ(items[items.size() - 1], items[items.size() - 2]) << "one list";
    EXPECT_EQ(held->pickle().end(), std::ssize(held->bytes)) << name;
  }
}

enum Torch { kTensor = 100, kTensor3, kParameter, kOrderedDict, kStorage };

PickleRules torch_rules() {
  return {.globals = {{"torch._utils", "_rebuild_tensor_v2", kTensor},
                      {"torch._utils", "_rebuild_tensor_v3", kTensor3},
                      {"torch._utils", "_rebuild_parameter", kParameter},
                      {"collections", "OrderedDict", kOrderedDict},
                      {"torch", "float8_e4m3fn", 200},
                      {"torch", "FloatStorage", kStorage},
                      {"torch", "LongStorage", kStorage + 1},
                      {"torch.storage", "UntypedStorage", kStorage + 2}},
          .references = true,
          .help = ""};
}

TEST(Pickles, TheStateOfATorchModelIsATreeOfCalls) {
  const auto held = parse(file_of("torch_state"), torch_rules());
  EXPECT_EQ(show(*held),
            "{'model', <103>(){"
            "'0.weight', <100>(@('storage', <104>, '0', 'cpu', 2), 0, (1, 2), (2, 1), False, <103>()), "
            "'0.bias', <100>(@('storage', <104>, '1', 'cpu', 1), 0, (1), (1), False, <103>()), "
            "'1.weight', <100>(@('storage', <104>, '2', 'cpu', 1), 0, (1), (1), False, <103>()), "
            "'1.bias', <100>(@('storage', <104>, '3', 'cpu', 1), 0, (1), (1), False, <103>()), "
            "'1.running_mean', <100>(@('storage', <104>, '4', 'cpu', 1), 0, (1), (1), False, <103>()), "
            "'1.running_var', <100>(@('storage', <104>, '5', 'cpu', 1), 0, (1), (1), False, <103>()), "
            "'1.num_batches_tracked', <100>(@('storage', <105>, '6', 'cpu', 1), 0, (), (), False, <103>()), "
            "'p', <102>(<100>(@('storage', <104>, '7', 'cpu', 1), 0, (1), (1), False, <103>()), True, <103>()), "
            "'f8', <101>(@('storage', <106>, '8', 'cpu', 2), 0, (2), (1), False, <103>(), <200>)}"
            "!{'_metadata', <103>(){'', {'version', 1}, '0', {'version', 1}, '1', {'version', 2}}}, "
            "'lr', 0.1, 'step', 1099511627776, 'names', ['a', None, True]}");
  PickleRules closed = torch_rules();
  closed.references = false;
  EXPECT_THAT(show(*parse(file_of("torch_state"), closed)), HasSubstr("refers to an object outside of the file at"));
}

TEST(Pickles, SeveralPicklesMayFollowOneAnother) {
  const std::string bytes = test_file("pickles/torch_legacy.pth");
  std::vector<std::string> shown;
  Bytes offset = 0;
  for (int i = 0; i < 5; ++i) {
    const auto held = parse(bytes, torch_rules(), offset);
    shown.push_back(show(*held));
    ASSERT_TRUE(held->parsed.ok()) << shown.back();
    offset = held->pickle().end();
    if (i == 0) {
      const PickleValue& magic = held->pickle()[held->pickle().root()];
      EXPECT_EQ(held->bytes.substr(static_cast<size_t>(magic.string.offset), static_cast<size_t>(magic.string.size)),
                "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"s);
    }
  }
  EXPECT_EQ(shown[0], "big");
  EXPECT_EQ(shown[1], "1001");
  EXPECT_THAT(shown[2], HasSubstr("'little_endian', True"));
  EXPECT_THAT(shown[3], HasSubstr("{'w', <100>(@('storage', <104>, "));
  EXPECT_EQ(std::ssize(bytes) - offset, 8 + 8) << "the number of elements, then two f32";
}

TEST(Pickles, FunctionsThatAreNotListedAreRefusedByNameAndOffset) {
  const struct {
    std::string bytes;
    const char* message;
  } cases[] = {
      {"cos\nsystem\n(S'echo'\ntR.", "t.pkl names the function `os.system` at offset 0"},
      {"\x80\x04\x8c\x02os\x8c\x06system\x93.", "names the function `os.system` at offset 14"},
      {"\x80\x02U\x02osq\1U\x06systemh\1\x93.", "names the function `system.os` at offset 18"},
      {"cnumpy.core.multiarray\nfromfile\n.", "names the function `numpy.core.multiarray.fromfile`"},
      {"cnumpy\ndtype.__class__\n.", "names the function `numpy.dtype.__class__`"},
      {"c\x1b[2J\n\xff\n.", "names the function `\u241b[2J.\uFFFD` at offset 0"},
      {"(S'a'\nios\nsystem\n.", "uses the instruction INST, which needs other code of Python, at offset 6"},
      {"\x82\1.", "uses the instruction EXT1"},
      {"\x80\5\x97.", "uses the instruction NEXT_BUFFER"},
      {"\x80\x09.", "has protocol 9, but the last known one is 5, at offset 0"},
      {"]\x85R.", "finds no value"},
      {"])R.", "calls a list with a tuple at offset 2"},
      {"cnumpy\ndtype\n]R.", "calls a function with a list"},
      {"cnumpy\ndtype\n)R)R.", "calls an object with a tuple"},
      {"]}b.", "sets the state of a list at offset 2"},
      {"cnumpy\ndtype\n)R]b]b.", "sets the state of an object twice"},
      {"Pa\n.", "refers to an object outside of the file at offset 0"},
      {"K\1Q.", "refers to an object outside of the file at offset 2"},
  };
  for (const auto& one : cases) {
    const auto held = parse(one.bytes);
    ASSERT_FALSE(held->parsed.ok()) << one.message;
    EXPECT_THAT(held->parsed.error().message, HasSubstr(one.message));
    if (!held->parsed.error().message.starts_with("t.pkl: offset")) {
      EXPECT_EQ(held->parsed.error().code, "XG0407") << one.message;
      EXPECT_EQ(held->parsed.error().help, "write it again");
      EXPECT_EQ(exit_code(held->parsed.error().kind), 1);
    }
  }
}

TEST(Pickles, DamageIsReportedWithItsOffset) {
  const std::string zeros(8, '\0');
  const struct {
    std::string bytes;
    const char* message;
  } cases[] = {
      {"", "offset 0: the file ends within the pickle"},
      {"\x80", "offset 1: the file ends within the pickle"},
      {"\xff.", "offset 0: the byte 0xff is not an instruction of a pickle"},
      {".", "the pickle ends with 0 values and 0 marks on the stack"},
      {"NN.", "the pickle ends with 2 values"},
      {"N(.", "1 values and 1 marks"},
      {"B\xff\xff\xff\x7f.", "offset 5: a string has 2147483647 bytes, but the file ends after 1"},
      {"\x8e" + zeros.substr(1) + "\x80.", "a string has 9223372036854775808 bytes, but the file ends after 1"},
      {"\x8b\xff\xff\xff\xff.", "a string has 4294967295 bytes"},
      {"\x95" + std::string(8, '\xff') + "N.", "a frame has 18446744073709551615 bytes, but the file ends after 2"},
      {"h\3.", "offset 0: the memo has no value 3"},
      {"gx\n.", "GET has no decimal number"},
      {"Ix\n.", "INT has no decimal number"},
      {"I1L\n.", "INT has no decimal number"},
      {"I " + std::string(2000, '1') + "\n.", "the line of a number has 2001 bytes"},
      {"Fx\n.", "FLOAT has no decimal number"},
      {"S'a\n.", "STRING is not in quotes"},
      {"S'\n.", "STRING is not in quotes"},
      {"V", "offset 1: the file ends within a line"},
      {"e.", "APPENDS finds no mark on the stack"},
      {"(e.", "APPENDS finds no value on the stack"},
      {"](a.", "APPEND finds no value on the stack"},
      {"}]a.", "offset 2: APPEND adds to a dict"},
      {"}]](a", "APPEND finds no value"},
      {"}Na.", "APPEND adds to a dict"},
      {"](Ne](Nu.", "SETITEMS adds to a list"},
      {"}(Nu.", "SETITEMS has a key without a value"},
      {"(Nd.", "DICT has a key without a value"},
      {"]NNs.", "SETITEM adds to a list"},
      {"K\1K\1\x93.", "STACK_GLOBAL has an integer for a name"},
      {"0.", "POP finds no value on the stack"},
      {"1.", "POP_MARK finds no mark"},
  };
  for (const auto& one : cases) {
    const auto held = parse(one.bytes);
    ASSERT_FALSE(held->parsed.ok()) << one.message;
    EXPECT_EQ(held->parsed.error().code, "XG0412") << one.message;
    EXPECT_THAT(held->parsed.error().message, HasSubstr(one.message));
  }
}

TEST(Pickles, NumbersHaveTheirSigns) {
  EXPECT_EQ(show(*parse("\x8a\1\xff."s)), "-1");
  EXPECT_EQ(show(*parse("\x8a\0."s)), "0");
  EXPECT_EQ(show(*parse("\x8a\2\xff\0."s)), "255");
  EXPECT_EQ(show(*parse("\x8a\x08" + std::string(7, '\0') + "\x80.")), "-9223372036854775808");
  EXPECT_EQ(show(*parse("\x8a\x09" + std::string(9, '\0') + ".")), "big");
  EXPECT_EQ(show(*parse("\x8b\1\0\0\0\x80."s)), "-128");
  EXPECT_EQ(show(*parse("J\xfe\xff\xff\xff."s)), "-2");
  EXPECT_EQ(show(*parse("M\xfe\xff."s)), "65534");
  EXPECT_EQ(show(*parse("L-12L\n."s)), "-12");
  EXPECT_EQ(show(*parse("G\xc0\x04\0\0\0\0\0\0."s)), "-2.5");
  EXPECT_EQ(show(*parse("I01\n."s)), "True");
}

TEST(Pickles, TheStackCanBeChangedWithoutLeavingATrace) {
  EXPECT_EQ(show(*parse("N(K\1K\2"s + "1.")), "None");
  EXPECT_EQ(show(*parse("N(0."s)), "None");
  EXPECT_EQ(show(*parse("K\1"s + "2\x86.")), "(1, 1)");
  EXPECT_EQ(show(*parse("]r\xff\xff\xff\xff"
                        "0j\xff\xff\xff\xff."s)),
            "[]")
      << "keys of a memo may be far apart";
  EXPECT_EQ(show(*parse("\x8f(K\1K\2\x90."s)), "{1, 2}");
  EXPECT_EQ(show(*parse("cbuiltins\nset\n]\x85R(K\1e."s)), "{}") << "items that a call's result gets are kept apart";
}

TEST(Pickles, CyclesAndDeepNestingAreRefused) {
  const auto message = [](const std::string& bytes) { return show(*parse(bytes)); };
  EXPECT_THAT(message("]q\1h\1a."), HasSubstr("offset 0: a list contains itself"));
  EXPECT_THAT(message("]q\1h\1\x85\x85"
                      "a."),
              HasSubstr("a list contains itself"));
  EXPECT_THAT(message("}q\1K\1h\1s."), HasSubstr("a dict contains itself"));
  EXPECT_THAT(message("cnumpy\ndtype\n)Rq\1h\1b."), HasSubstr("an object contains itself"));
  EXPECT_THAT(message(")" + std::string(kMostPickleDepth - 1, '\x85') + "."), HasSubstr("((((("));
  EXPECT_THAT(message(")" + std::string(kMostPickleDepth, '\x85') + "."), HasSubstr("nested more than 100 deep"));
  EXPECT_THAT(message(")" + std::string(1'000'000, '\x85') + "."), HasSubstr("nested more than 100 deep"));
  // A finished value at the depth 60, which is then put below 60 levels.
  EXPECT_THAT(message(")" + std::string(60, '\x85') + "q\1" + std::string(60, '\x85') + "h\1\x86."),
              HasSubstr("nested more than 100 deep"));
  // 2 to the power of 90 paths.
  std::string laughs = ")";
  for (int i = 0; i < 90; ++i) {
    laughs += "q" + std::string(1, static_cast<char>(i)) + "h" + std::string(1, static_cast<char>(i)) + "\x86";
  }
  EXPECT_TRUE(parse(laughs + ".")->parsed.ok());
}

TEST(Pickles, MemoryIsLimited) {
  PickleRules rules = plain_rules();
  rules.most_memory = kMiB;
  for (const std::string& repeated : {"]"s, ")\x85"s, "("s, "K\1"s, "N2"s, "]\x94"s}) {
    std::string many = "(";
    for (int i = 0; i < 400'000; ++i) {
      many += repeated;
    }
    EXPECT_THAT(show(*parse(many, rules)), HasSubstr("its values take more than 1.0 MiB of memory")) << repeated;
  }
  std::string appended = "]";
  for (int i = 0; i < 200'000; ++i) {
    appended += "Na";
  }
  EXPECT_THAT(show(*parse(appended + ".", rules)), HasSubstr("its values take more than 1.0 MiB of memory"));
  EXPECT_TRUE(parse(appended + ".")->parsed.ok());
  std::string popped;
  for (int i = 0; i < 400'000; ++i) {
    popped += "N0";
  }
  EXPECT_TRUE(parse(popped + "N.", rules)->parsed.ok()) << "memory that is free again is not counted";
}

TEST(Pickles, AStopRequestEndsTheParsing) {
  const std::string bytes = "N.";
  const auto input = pickle_in_memory("t.pkl", std::as_bytes(std::span(bytes)));
  const std::atomic<bool> stop{true};
  const auto stopped = parse_pickle(*input, 0, plain_rules(), &stop);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
}

// An input that counts the bytes that are read.
class Counting final : public PickleInput {
 public:
  explicit Counting(std::string bytes) : held_(std::move(bytes)) {}
  const std::string& name() const override { return name_; }
  Bytes bytes() const override { return std::ssize(held_); }
  Status read(Bytes offset, std::span<std::byte> to) const override {
    count += std::ssize(to);
    std::memcpy(to.data(), held_.data() + offset, to.size());
    return {};
  }
  mutable Bytes count = 0;

 private:
  std::string name_ = "counted";
  std::string held_;
};

TEST(Pickles, StringsAreSkippedNotRead) {
  const std::string one = "B\0\0\1\0"s + std::string(65536, 'x');
  std::string bytes = "(";
  for (int i = 0; i < 50; ++i) {
    bytes += one;
  }
  const Counting input(bytes + "t.");
  const auto pickle = parse_pickle(input, 0, plain_rules());
  ASSERT_TRUE(pickle.ok());
  EXPECT_LE(input.count, 52 * 4096);
  const auto& last = pickle.value()[pickle.value()[pickle.value().root()].items.at(49)].string;
  EXPECT_EQ(read_pickle_bytes(input, last).value(), std::vector<std::byte>(65536, std::byte{'x'}));
}

TEST(Pickles, EveryTruncationIsAnError) {
  for (const char* name : kFiles) {
    const std::string whole = file_of(name);
    for (size_t length = 0; length < whole.size(); ++length) {
      EXPECT_FALSE(parse(whole.substr(0, length))->parsed.ok()) << name << " " << length;
    }
  }
}

TEST(Pickles, RandomDamageGivesValuesOrAnError) {
  const auto seed = static_cast<uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int good = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = file_of(kFiles[random() % std::size(kFiles)]);
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto held = parse(bytes);
    if (!held->parsed.ok()) {
      EXPECT_THAT(held->parsed.error().code, ::testing::AnyOf("XG0407", "XG0412"));
      continue;
    }
    ++good;
    for (PickleId id = 0; id < held->pickle().values(); ++id) {
      const PickleString& string = held->pickle()[id].string;
      ASSERT_LE(string.offset + string.size, std::ssize(held->bytes));
      ASSERT_GE(std::min(string.offset, string.size), 0);
    }
  }
  EXPECT_GT(good, 1000);
}

}  // namespace
}  // namespace xrun::runtime
