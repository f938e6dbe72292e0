// One tile of a product in bf16 for the PTX machine: out [64, 128] = a [64, 128] * b [128, 128]^T, sums in f32. The sum
// runs in two halves of 64; each half is copied to shared memory by cp.async.
// docs/internals/ptx_machine.md, "Texts of the tests", says how product.ptx is made.
#include <cstdint>

constexpr int kRows = 64, kColumns = 128, kDepth = 128, kHalf = 64;
constexpr int kStride = kHalf + 8;  // 8 more elements a row, so that ldmatrix reads 8 different banks

__device__ void load_four(uint32_t (&to)[4], const uint16_t* from) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(from));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// Copies 16 bytes to shared memory; they arrive when the thread waits for its copies.
__device__ void copy(uint16_t* to, const uint16_t* from) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(__cvta_generic_to_global(from))
               : "memory");
}

__device__ void multiply(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Each of four warps computes 32 x 64 elements. REQUIRES: 128 threads, one block.
extern "C" __global__ void product(const uint16_t* a, const uint16_t* b, float* out) {
  __shared__ __align__(16) uint16_t rows[kRows * kStride];
  __shared__ __align__(16) uint16_t columns[kColumns * kStride];
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int first_row = warp % 2 * 32, first_column = warp / 2 * 64;
  float sums[2][8][4] = {};
#pragma unroll 1
  for (int half = 0; half < kDepth / kHalf; ++half) {
#pragma unroll 1
    for (int i = thread; i < kRows * kHalf / 8; i += 128) {
      const int row = i / 8, at = i % 8 * 8;
      copy(rows + row * kStride + at, a + row * kDepth + half * kHalf + at);
    }
#pragma unroll 1
    for (int i = thread; i < kColumns * kHalf / 8; i += 128) {
      const int row = i / 8, at = i % 8 * 8;
      copy(columns + row * kStride + at, b + row * kDepth + half * kHalf + at);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
#pragma unroll 2
    for (int k = 0; k < kHalf; k += 16) {
      uint32_t a_parts[2][4];
      for (int i = 0; i < 2; ++i) {
        load_four(a_parts[i], rows + (first_row + i * 16 + lane % 16) * kStride + k + lane / 16 * 8);
      }
      for (int j = 0; j < 4; ++j) {
        uint32_t b_parts[4];
        const int column = first_column + j * 16 + lane % 8 + lane / 16 * 8;
        load_four(b_parts, columns + column * kStride + k + lane / 8 % 2 * 8);
        for (int i = 0; i < 2; ++i) {
          multiply(sums[i][2 * j], a_parts[i], b_parts[0], b_parts[1]);
          multiply(sums[i][2 * j + 1], a_parts[i], b_parts[2], b_parts[3]);
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 8; ++j) {
      float* at = out + (first_row + i * 16 + lane / 4) * kColumns + first_column + j * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(at) = make_float2(sums[i][j][0], sums[i][j][1]);
      *reinterpret_cast<float2*>(at + 8 * kColumns) = make_float2(sums[i][j][2], sums[i][j][3]);
    }
  }
}
