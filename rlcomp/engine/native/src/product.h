// Small products of matrices in the nearest caches: C = A B or C += A B, with B in vectors.
#pragma once

#include <algorithm>

#include "vector.h"

namespace rlcomp {

// A factor that is read by single numbers: number (m, k) is at m * row + k * column.
struct Factor {
    const float* at;
    int64_t row, column;
};

// A factor that is read by vectors: vector v of row k is at k * row + v * panel.
struct Panels {
    const float* at;
    int64_t row, panel;
};

template <int R, int V, bool Add>
[[gnu::always_inline]] inline void product_tile(Factor a, Panels b, float* c, int64_t ldc,
                                                int64_t inner) {
    Vec sum[R][V];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sum[r][v] = Add ? load(c + r * ldc + v * W) : Vec{};
    for (int64_t k = 0; k < inner; ++k) {
        Vec row[V];
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) row[v] = load(b.at + k * b.row + v * b.panel);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
            const Vec x = splat(a.at[r * a.row + k * a.column]);
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) sum[r][v] += x * row[v];
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) store(c + r * ldc + v * W, sum[r][v]);
}

// Indices that swap the two off-diagonal H x H blocks of each 2H x 2H block: of the upper rows, or
// (Lower) of the lower rows.
template <int H, int Lower, int... I>
constexpr auto swapped(std::integer_sequence<int, I...>) {
    return std::integer_sequence<int, ((I & H) ? W + I - (Lower ? 0 : H) : I + (Lower ? H : 0))...>{};
}

// Transposes W rows of W numbers.
template <int H = W / 2>
inline void transpose(Vec* v) {
    if constexpr (H > 0) {
        using All = std::make_integer_sequence<int, W>;
        for (int i = 0; i < W; ++i) {
            if (i & H) continue;
            const Vec a = v[i], b = v[i + H];
            v[i] = shuffled(a, b, swapped<H, 0>(All{}));
            v[i + H] = shuffled(a, b, swapped<H, 1>(All{}));
        }
        transpose<H / 2>(v);
    }
}

template <int H, int... I>
constexpr auto exchanged(std::integer_sequence<int, I...>) {
    return std::integer_sequence<int, (I ^ H)...>{};
}

// Returns the largest lane, in all lanes.
template <int H = W / 2>
inline Vec largest_lane(Vec v) {
    if constexpr (H == 0) {
        return v;
    } else {
        using All = std::make_integer_sequence<int, W>;
        return largest_lane<H / 2>(larger(v, shuffled(v, v, exchanged<H>(All{}))));
    }
}

// Returns the rows of a tile of V vectors: its sums fit in the registers.
template <int V>
constexpr int product_rows() {
#if defined(__AVX512F__)
    return V == 4 ? 6 : V == 2 ? 12 : 16;
#elif defined(__AVX2__)
    return V == 4 ? 2 : V == 2 ? 5 : 8;
#else
    return V == 4 ? 5 : V == 2 ? 10 : 16;
#endif
}

template <int V, bool Add>
inline void product_columns(Factor a, Panels b, float* c, int64_t ldc, int64_t rows,
                            int64_t inner) {
    constexpr int R = product_rows<V>();
    int64_t m = 0;
    for (; m + R <= rows; m += R)
        product_tile<R, V, Add>({a.at + m * a.row, a.row, a.column}, b, c + m * ldc, ldc, inner);
    for (; m + 2 <= rows; m += 2)
        product_tile<2, V, Add>({a.at + m * a.row, a.row, a.column}, b, c + m * ldc, ldc, inner);
    for (; m < rows; ++m)
        product_tile<1, V, Add>({a.at + m * a.row, a.row, a.column}, b, c + m * ldc, ldc, inner);
}

// Computes C [rows, width] = A B, or C += A B; `width` is a multiple of W.
template <bool Add>
inline void product(Factor a, Panels b, float* c, int64_t ldc, int64_t rows, int64_t inner,
                    int64_t width) {
    int64_t n = 0;
    const auto from = [&] { return Panels{b.at + n / W * b.panel, b.row, b.panel}; };
    for (; n + 4 * W <= width; n += 4 * W)
        product_columns<4, Add>(a, from(), c + n, ldc, rows, inner);
    for (; n + 2 * W <= width; n += 2 * W)
        product_columns<2, Add>(a, from(), c + n, ldc, rows, inner);
    for (; n < width; n += W) product_columns<1, Add>(a, from(), c + n, ldc, rows, inner);
}

}  // namespace rlcomp
