// Vectors of the machine's width. One object is compiled per instruction set, so the width is a
// constant of the translation unit and nothing is looked up while it runs.
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
// x - 0 is x, whatever its sign; x + 0 would be an addition.
inline Vec splat(float x) { return x - Vec{}; }

// The first `count` < W numbers, then zeros.
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

// Of the groups of 2H lanes in a, then in b, the lower (Upper = 0) or the upper halves.
template <int H, int Upper, int... I>
constexpr auto halves(std::integer_sequence<int, I...>) {
    return std::integer_sequence<int, (I / H) * 2 * H + I % H + Upper * H...>{};
}

// Halves of groups of 2H lanes added: twice as many groups, a's before b's. A sum pairs the same
// lanes wherever its group stands, so that it does not depend on what is summed beside it.
template <int H>
inline Vec folded(Vec a, Vec b) {
    using All = std::make_integer_sequence<int, W>;
    return shuffled(a, b, halves<H, 0>(All{})) + shuffled(a, b, halves<H, 1>(All{}));
}

// The sums of N <= W vectors, in groups of W / N lanes that wait for further folding.
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

// The sums of N <= W vectors (a power of two), in the first N lanes.
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

// exp, within 2 units in the last place; 0 below -87, NaN of NaN. Cephes' polynomial.
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
