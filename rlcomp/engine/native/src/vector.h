// Vectors of the width of the instruction set. The library is compiled once per instruction set, so
// the width is a constant.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

namespace rlcomp {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX2__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;  // NEON
#endif
constexpr int W = kBytes / 4;  // floats of a vector

typedef float Vec __attribute__((vector_size(kBytes)));
typedef uint32_t Ints __attribute__((vector_size(kBytes)));
typedef float Loose __attribute__((vector_size(kBytes), aligned(4), may_alias));

inline Vec load(const float* p) { return *reinterpret_cast<const Loose*>(p); }
inline void store(float* p, Vec v) { *reinterpret_cast<Loose*>(p) = v; }
// x - 0 is x for both signs of 0, so that the compiler drops the subtraction; -0 + 0 would be 0.
inline Vec splat(float x) { return x - Vec{}; }

// Loads the first `count` < W numbers, then zeros.
inline Vec load_some(const float* p, int64_t count) {
    Vec v{};
    std::memcpy(&v, p, static_cast<size_t>(count) * sizeof(float));
    return v;
}

inline int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

template <int... I>
inline Vec shuffled(Vec a, Vec b, std::integer_sequence<int, I...>) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, I...);
#else
    return __builtin_shuffle(a, b, Ints{static_cast<uint32_t>(I)...});
#endif
}

// Indices of the lower (Upper = 0) or upper halves of the groups of 2H lanes in a, then in b.
template <int H, int Upper, int... I>
constexpr auto halves(std::integer_sequence<int, I...>) {
    return std::integer_sequence<int, (I / H) * 2 * H + I % H + Upper * H...>{};
}

// Adds the two halves of each group of 2H lanes; returns the groups of a, then of b. A sum adds the
// same lanes at every place of its group, so that it does not depend on the other groups.
template <int H>
inline Vec folded(Vec a, Vec b) {
    using All = std::make_integer_sequence<int, W>;
    return shuffled(a, b, halves<H, 0>(All{})) + shuffled(a, b, halves<H, 1>(All{}));
}

// Adds up N <= W vectors to one vector: W / N lanes for each, which are still to be folded.
template <int N>
inline Vec folded_all(const Vec* v) {
    if constexpr (N == 1) {
        return v[0];
    } else {
        return folded<W / N>(folded_all<N / 2>(v), folded_all<N / 2>(v + N / 2));
    }
}

template <int H>
inline Vec finished(Vec v) {
    if constexpr (H == 0) {
        return v;
    } else {
        return finished<H / 2>(folded<H>(v, v));
    }
}

// Returns the sums of N <= W vectors (a power of two), in the first N lanes.
template <int N>
inline Vec sums(const Vec* v) {
    return finished<W / N / 2>(folded_all<N>(v));
}

inline float sum(Vec v) { return sums<1>(&v)[0]; }

inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }

inline float largest(Vec v) {
    float top = v[0];
    for (int lane = 1; lane < W; ++lane) top = v[lane] > top ? v[lane] : top;
    return top;
}

// Computes exp, within 2 units in the last place; 0 below -87.3, NaN of NaN. Polynomial of Cephes.
inline Vec exponential(Vec x) {
    const Vec low = splat(-87.33654f), high = splat(88.37626f);
    Vec y = x < low ? low : x;
    y = y > high ? high : y;
    const Vec magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    const Vec shifted = y * 1.44269504f + magic;
    const Vec n = shifted - magic;
    Vec r = y - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    Vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const Ints bits = ((Ints)shifted + 127) << 23;
    const Vec result = p * (Vec)bits;
    return x < low ? Vec{} : result;
}

}  // namespace rlcomp
