#include "linear.h"

#include <algorithm>

#include "vector.h"

namespace rlcomp {
namespace {

// Rows and outputs of a tile: its sums fit in the registers.
#if defined(__AVX512F__) || !defined(__AVX2__)
constexpr int kRows = 4, kOuts = 4;
#else
constexpr int kRows = 3, kOuts = 4;
#endif
// Inputs of a block: a chain of sums has at most 64 terms.
constexpr int64_t kInputs = 64 * W;
// Bytes of weights that stay in the nearest cache, and rows that are multiplied with them.
constexpr int64_t kHeld = 16 * 1024;
constexpr int64_t kAtOnce = 128;

// Product of a range of inputs, which is added to y.
struct Block {
    const float* x;
    const float* w;
    int64_t ldx, ldw, inputs;
    float* y;
    int64_t ldy;
    const float* ahead = nullptr;  // weights to prefetch; may lie behind the last weight
};

// Keeps a vector in a register; else the compiler may load it from memory for each row.
inline Vec held(Vec v) {
#if defined(__x86_64__)
    asm("" : "+v"(v));
#endif
    return v;
}

template <int R, int O, class Take>
[[gnu::always_inline]] inline void multiply(const Block& b, Vec (&acc)[R][O], Take take) {
    Vec x[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) x[r] = take(b.x + r * b.ldx);
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) {
        const Vec w = held(take(b.w + o * b.ldw));
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) acc[r][o] += x[r] * w;
    }
}

// Writes the sums of N vectors from the I-th on, as many at a time as a vector has lanes.
template <int I, int N>
[[gnu::always_inline]] inline void sum_up(const Vec* v, float* into) {
    if constexpr (I < N) {
        constexpr int left = N - I;
        constexpr int some = left >= W ? W : left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        const Vec found = sums<some>(v + I);
        std::memcpy(into + I, &found, some * sizeof(float));
        sum_up<I + some, N>(v, into);
    }
}

// Multiplies R rows with O outputs; meanwhile prefetches the weights of F outputs.
template <int R, int O, int F>
inline void tile(const Block& b) {
    Vec acc[R][O];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int o = 0; o < O; ++o) acc[r][o] = Vec{};
    const int64_t whole = b.inputs / W * W, rest = b.inputs - whole;
    for (int64_t k = 0; k < whole; k += W) {
#pragma GCC unroll 4
        for (int f = 0; f < F; ++f) __builtin_prefetch(b.ahead + f * b.ldw + k, 0, 2);
        multiply(b, acc, [k](const float* p) { return load(p + k); });
    }
    if (rest) multiply(b, acc, [=](const float* p) { return load_some(p + whole, rest); });
    Vec all[R * O];
#pragma GCC unroll 32
    for (int i = 0; i < R * O; ++i) all[i] = acc[i / O][i % O];
    float found[R * O];
    sum_up<0, R * O>(all, found);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
        for (int o = 0; o < O; ++o) b.y[r * b.ldy + o] += found[r * O + o];
}

template <int O, int F>
inline void rows_of(const Block& b, int64_t rows) {
    if (rows == 4) tile<4, O, F>(b);
    if (rows == 3) tile<3, O, F>(b);
    if (rows == 2) tile<2, O, F>(b);
    if (rows == 1) tile<1, O, F>(b);
}

// Multiplies a tile of rows with weights in the cache, and prefetches weights of the next outputs.
// The first tiles of rows divide these weights among themselves. Without the prefetch, products
// with few rows wait for memory.
inline void fetching(Block b, int64_t rows, int64_t number, int64_t tiles) {
    const int64_t share = tiles == 1 ? 4 : tiles < 4 ? 2 : 1;
    b.ahead += number * share * b.ldw;
    if (number * share >= kOuts) return rows_of<kOuts, 0>(b, rows);
    if (share == 4) return rows_of<kOuts, 4>(b, rows);
    share == 2 ? rows_of<kOuts, 2>(b, rows) : rows_of<kOuts, 1>(b, rows);
}

void outputs_of(const Block& b, int64_t rows, int64_t outs) {
    const int64_t held = std::max<int64_t>(1, kHeld / (4 * kOuts * b.inputs)) * kOuts;
    const int64_t tiles = (rows + kRows - 1) / kRows;
    for (int64_t start = 0; start < outs; start += held) {
        const int64_t stop = std::min(outs, start + held);
        for (int64_t number = 0; number < tiles; ++number) {
            const int64_t row = number * kRows, some = std::min<int64_t>(kRows, rows - row);
            for (int64_t o = start; o < stop;) {
                Block each = b;
                each.x += row * b.ldx;
                each.w += o * b.ldw;
                each.y += row * b.ldy + o;
                each.ahead = each.w + held * b.ldw;
                const bool full = stop - o >= kOuts;
                full ? fetching(each, some, number, tiles) : rows_of<1, 0>(each, some);
                o += full ? kOuts : 1;
            }
        }
    }
}

}  // namespace

void linear(const Linear& layer, const float* x, int64_t ldx, int64_t rows, float* y, int64_t ldy,
            bool add) {
    for (int64_t row = 0; row < rows; ++row) {
        float* into = y + row * ldy;
        if (!add) std::fill(into, into + layer.out, 0.0f);
        if (layer.bias)
            for (int64_t o = 0; o < layer.out; ++o) into[o] += layer.bias[o];
    }
    for (int64_t row = 0; row < rows; row += kAtOnce) {
        const int64_t some = std::min(kAtOnce, rows - row);
        for (int64_t k = 0; k < layer.in; k += kInputs) {
            const int64_t inputs = std::min(kInputs, layer.in - k);
            outputs_of({x + row * ldx + k, layer.weight + k, ldx, layer.in, inputs, y + row * ldy,
                        ldy},
                       some, layer.out);
        }
    }
}

}  // namespace rlcomp
