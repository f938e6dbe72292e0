// Sums of rows for the PTX machine: shuffles, shared memory, barriers, atomic counts, and a last block that reads what
// the others wrote.
// docs/internals/ptx_machine.md, "Texts of the tests", says how rows.ptx is made.
#include <cstdint>

__device__ unsigned int blocks_done;
__constant__ float scales[4] = {1.0f, 0.5f, 0.25f, 0.125f};

// sums[row] = sum of values[row, 0 .. width), in a fixed order; one block a row. The last block to end adds up all rows
// into sums[gridDim.x]. REQUIRES: the number of threads is a multiple of 32.
extern "C" __global__ void sum_rows(const float* values, float* sums, int width) {
  extern __shared__ float parts[];
  __shared__ bool last;
  float sum = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    sum += values[blockIdx.x * width + i];
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(0xffffffff, sum, distance);
  }
  if (threadIdx.x % 32 == 0) {
    parts[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < blockDim.x / 32; ++i) {
      sum += parts[i];
    }
    sums[blockIdx.x] = sum * scales[blockIdx.x % 4];
    __threadfence();
    last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float total = 0;
    for (int i = 0; i < gridDim.x; ++i) {
      total += sums[i];
    }
    sums[gridDim.x] = total;
  }
}

// out[i] = the value of in[i] rounded to bf16, times 1 / (1 + i); threads beyond `count` do nothing.
extern "C" __global__ void scale(const float* in, float* out, uint16_t* rounded, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) {
    return;
  }
  uint32_t bits = __float_as_uint(in[i]);
  bits += 0x7fff + (bits >> 16 & 1);
  rounded[i] = static_cast<uint16_t>(bits >> 16);
  out[i] = __uint_as_float(bits & 0xffff0000u) / static_cast<float>(1 + i);
}
