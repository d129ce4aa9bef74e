// What CUDA C in the speedrun's attempts means on a CPU: a thread for each of a block's, blocks one after the other.
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static

struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct dim3 { unsigned x = 1, y = 1, z = 1; };

static thread_local dim3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;

struct Warp {
    std::barrier<> together{32};
    unsigned said[32][8];
};
static std::unique_ptr<std::barrier<>> block_together;
static std::vector<std::unique_ptr<Warp>> warps;

inline void __syncthreads() { block_together->arrive_and_wait(); }
inline float __uint_as_float(unsigned bits) { float value; std::memcpy(&value, &bits, 4); return value; }
inline unsigned __float_as_uint(float value) { unsigned bits; std::memcpy(&bits, &value, 4); return bits; }
template <class T> T __ldcs(const T* at) { return *at; }
template <class T> void __stcs(T* at, T value) { *at = value; }
inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }
template <class T> T min(T a, T b) { return a < b ? a : b; }

inline Warp& warp_of() { return *warps[threadIdx.x / 32]; }

inline float __shfl_xor_sync(unsigned, float value, int mask) {
    Warp& warp = warp_of();
    warp.said[threadIdx.x % 32][0] = __float_as_uint(value);
    warp.together.arrive_and_wait();
    const float other = __uint_as_float(warp.said[(threadIdx.x % 32) ^ mask][0]);
    warp.together.arrive_and_wait();
    return other;
}

// In place of the attempts' own, which are assembly.
inline unsigned rounded(float value) {
    unsigned bits = __float_as_uint(value);
    bits = value != value ? 0x7FFF : (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    return bits | bits << 16;
}
inline float power(float exponent) { return exponent < -126 ? 0.0f : std::exp2(exponent); }
inline unsigned larger(unsigned a, unsigned b) {
    const float low = std::fmax(__uint_as_float(a << 16), __uint_as_float(b << 16));
    const float high = std::fmax(__uint_as_float(a & 0xFFFF0000u), __uint_as_float(b & 0xFFFF0000u));
    return __float_as_uint(low) >> 16 | (__float_as_uint(high) & 0xFFFF0000u);
}
inline unsigned pack(float low, float high) { return (rounded(low) & 0xFFFFu) | (rounded(high) & 0xFFFF0000u); }

// PTX ISA, matrix fragments of mma.m16n8k16 with .bf16: where each lane's numbers stand in A, B and C.
inline void mma(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    Warp& warp = warp_of();
    const unsigned mine[6] = {a0, a1, a2, a3, b0, b1}, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    std::memcpy(warp.said[lane], mine, sizeof mine);
    warp.together.arrive_and_wait();
    auto number = [&](unsigned of, int which, int half) {
        return __uint_as_float(half ? warp.said[of][which] & 0xFFFF0000u : warp.said[of][which] << 16);
    };
    for (int row = 0; row < 2; row++)
        for (int column = 0; column < 2; column++)
            for (int part = 0; part < 2; part++)
                for (unsigned k = 0; k < 4; k++)
                    for (int half = 0; half < 2; half++)
                        c[2 * row + column] += number(4 * g + k, row + 2 * part, half)
                                             * number(4 * (2 * t + column) + k, 4 + part, half);
    warp.together.arrive_and_wait();
}

template <class Kernel> void launch(Kernel kernel, const unsigned* grid, const unsigned* block) {
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    for (unsigned at = 0; at < gridDim.x; at++) {
        block_together = std::make_unique<std::barrier<>>(blockDim.x);
        warps.clear();
        for (unsigned warp = 0; warp < blockDim.x / 32; warp++) warps.push_back(std::make_unique<Warp>());
        std::vector<std::thread> threads;
        for (unsigned thread = 0; thread < blockDim.x; thread++)
            threads.emplace_back([=] { blockIdx = {at, 0, 0}; threadIdx = {thread, 0, 0}; kernel(); });
        for (auto& thread : threads) thread.join();
    }
}
