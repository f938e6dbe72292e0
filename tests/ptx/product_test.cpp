// One tile of a product in bf16: its bits in every order of warps, and the faults that are planted in it.
#include <array>
#include <cmath>

#include "tests/ptx/kernels.h"

namespace xrun::ptx {
namespace {

constexpr size_t kRows = 64;
constexpr size_t kColumns = 128;
constexpr size_t kDepth = 128;

struct Product {
  std::vector<uint16_t> a;
  std::vector<uint16_t> b;
};

double number(uint16_t bfloat) { return std::bit_cast<float>(uint32_t{bfloat} << 16); }

Product random_product(uint64_t seed) {
  std::mt19937_64 random(seed);
  Product made{std::vector<uint16_t>(kRows * kDepth), std::vector<uint16_t>(kColumns * kDepth)};
  for (std::vector<uint16_t>* matrix : {&made.a, &made.b}) {
    for (uint16_t& value : *matrix) {
      // Exponents from 2^-8 to 2^7, so that alignment cuts bits off.
      value = static_cast<uint16_t>((random() & 0x807f) | (119 + random() % 16) << 7);
    }
  }
  return made;
}

// Truncates the magnitude to a multiple of 2^unit.
double cut(double value, int unit) { return std::ldexp(std::trunc(std::ldexp(value, -unit)), unit); }

// The model of mma_model.h, computed with f64: all products and aligned terms are exact in it.
float model_sum(const Product& from, size_t row, size_t column, Generation generation) {
  const size_t terms = generation == Generation::kA100 ? 8 : 16;
  const int bits = generation == Generation::kA100 ? 24 : 25;
  double sum = 0;
  for (size_t first = 0; first < kDepth; first += terms) {
    const auto a = [&](size_t k) { return number(from.a[row * kDepth + first + k]); };
    const auto b = [&](size_t k) { return number(from.b[column * kDepth + first + k]); };
    int largest = sum != 0 ? std::ilogb(sum) : -1000;
    for (size_t k = 0; k < terms; ++k) {
      largest = std::max(largest, std::ilogb(a(k)) + std::ilogb(b(k)));
    }
    double aligned = cut(sum, largest - bits);
    for (size_t k = 0; k < terms; ++k) {
      aligned += cut(a(k) * b(k), largest - bits);
    }
    sum = aligned == 0 ? 0 : cut(aligned, std::ilogb(aligned) - 23);
  }
  return static_cast<float>(sum);
}

std::vector<float> reference(const Product& from, Generation generation) {
  std::vector<float> sums(kRows * kColumns);
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] = model_sum(from, i / kColumns, i % kColumns, generation);
  }
  return sums;
}

struct Outcome {
  Execution execution;
  std::vector<float> sums;
};

Outcome run(const std::string& text, const Product& product, const Options& options) {
  const auto module = module_of(text);
  Outcome done;
  if (module == nullptr) {
    return done;
  }
  Memory memory;
  Launch launch{.threads = {128, 1, 1}};
  launch.arguments = {add(memory, "a", product.a), add(memory, "b", product.b)};
  const uint64_t out = add(memory, "out", std::vector<float>(kRows * kColumns, NAN));
  launch.arguments.push_back(out);
  done.execution = execute(*module, "product", launch, memory, options);
  done.sums = values_of<float>(memory, out, kRows * kColumns);
  return done;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(Product, TheTileHasTheBitsOfTheModelOfEachGeneration) {
  const std::string text = golden_text("product");
  const Product product = random_product(kSeed);
  const auto a100 = reference(product, Generation::kA100);
  const auto h100 = reference(product, Generation::kH100);
  EXPECT_FALSE(same_bits(a100, h100)) << "the operands do not tell the models apart";
  for (const Generation generation : {Generation::kA100, Generation::kH100, Generation::kB200}) {
    const Outcome done = run(text, product, {.generation = generation});
    ASSERT_FALSE(done.execution.fault) << done.execution.fault->print();
    EXPECT_TRUE(same_bits(done.sums, generation == Generation::kA100 ? a100 : h100)) << "seed " << kSeed;
  }
}

TEST(Product, TheBitsAreEqualInEveryOrderOfWarps) {
  const std::string text = golden_text("product");
  const Product product = random_product(kSeed + 1);
  const auto expected = reference(product, Generation::kH100);
  for (const Order order : kOrders) {
    const Outcome done = run(text, product, {.order = order, .seed = kSeed});
    ASSERT_FALSE(done.execution.fault) << done.execution.fault->print();
    EXPECT_TRUE(same_bits(done.sums, expected)) << "order " << static_cast<int>(order);
  }
}

TEST(Product, ARemovedBarrierIsARaceInEveryOrder) {
  const Product product = random_product(kSeed + 2);
  for (const int barrier : {0, 1}) {
    const std::string text = replaced(golden_text("product"), "bar.sync \t0;", "", barrier);
    for (const Order order : kOrders) {
      const Outcome done = run(text, product, {.order = order, .seed = kSeed});
      ASSERT_TRUE(done.execution.fault) << "barrier " << barrier << ", order " << static_cast<int>(order);
      const Fault& fault = *done.execution.fault;
      // Some orders meet bytes that nobody has written, or whose copy is still under way, before they meet the race.
      const bool early =
          fault.kind == FaultKind::kPendingCopy || (barrier == 0 && fault.kind == FaultKind::kUninitialisedMemory);
      EXPECT_TRUE(fault.kind == FaultKind::kRace || early) << fault.print();
      EXPECT_TRUE(fault.source.starts_with("product.cu:")) << fault.print();
      EXPECT_TRUE(fault.buffer.find("_ZZ7productE") == 0) << fault.print();
    }
  }
}

TEST(Product, WithoutTheCheckOfRacesUnfairOrdersFindARemovedBarrier) {
  const Product product = random_product(kSeed + 3);
  const auto expected = reference(product, Generation::kH100);
  for (const int barrier : {0, 1}) {
    const std::string text = replaced(golden_text("product"), "bar.sync \t0;", "", barrier);
    for (const Order order : {Order::kGreedy, Order::kReversed, Order::kWarpLast}) {
      const Outcome done = run(text, product, {.order = order, .seed = kSeed, .races = false});
      EXPECT_TRUE(done.execution.fault || !same_bits(done.sums, expected))
          << "barrier " << barrier << ", order " << static_cast<int>(order);
    }
  }
}

TEST(Product, AMissingWaitForCopiesIsFoundInEveryOrder) {
  const Product product = random_product(kSeed + 4);
  for (const char* wait : {"", "cp.async.wait_group 1;"}) {
    const std::string text = replaced(golden_text("product"), "cp.async.wait_group 0;", wait);
    for (const Order order : kOrders) {
      const Outcome done = run(text, product, {.order = order, .seed = kSeed});
      ASSERT_TRUE(done.execution.fault);
      EXPECT_EQ(done.execution.fault->kind, FaultKind::kPendingCopy) << done.execution.fault->print();
    }
  }
}

TEST(Product, AnInputThatEndsTooEarlyIsNamed) {
  Product product = random_product(kSeed + 5);
  product.b.resize(product.b.size() - 1);
  const Outcome done = run(golden_text("product"), product, {});
  ASSERT_TRUE(done.execution.fault);
  EXPECT_EQ(done.execution.fault->kind, FaultKind::kOutOfBounds);
  EXPECT_EQ(done.execution.fault->buffer, "b + 32752 of 32766 bytes") << done.execution.fault->print();
}

}  // namespace
}  // namespace xrun::ptx
