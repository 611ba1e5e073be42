#include "linear.h"

#include <algorithm>

#include "vector.h"

namespace rlcomp {
namespace {

// Rows and outputs of a tile: its sums are held in registers.
#if defined(__AVX512F__) || !defined(__AVX2__)
constexpr int kRows = 4, kOuts = 4;
#else
constexpr int kRows = 3, kOuts = 4;
#endif
// Inputs of a block: a chain of sums has at most 64 links.
constexpr int64_t kInputs = 64 * W;
// Bytes of weights that stay in the nearest cache, and rows that pass over them at once.
constexpr int64_t kHeld = 24 * 1024;
constexpr int64_t kAtOnce = 128;

// The product of some inputs, added to y.
struct Block {
    const float* x;
    const float* w;
    int64_t ldx, ldw, inputs;
    float* y;
    int64_t ldy;
};

// Keeps a vector in a register: as an operand in memory it would be loaded once for each row.
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

// Sums from the I-th on of N vectors, as many at once as a vector has lanes.
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

template <int R, int O>
inline void tile(const Block& b) {
    Vec acc[R][O];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int o = 0; o < O; ++o) acc[r][o] = Vec{};
    const int64_t whole = b.inputs / W * W, rest = b.inputs - whole;
    for (int64_t k = 0; k < whole; k += W)
        multiply(b, acc, [k](const float* p) { return load(p + k); });
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

template <int O>
inline void rows_of(const Block& b, int64_t rows) {
    if (rows == 4) tile<4, O>(b);
    if (rows == 3) tile<3, O>(b);
    if (rows == 2) tile<2, O>(b);
    if (rows == 1) tile<1, O>(b);
}

void outputs_of(const Block& b, int64_t rows, int64_t outs) {
    const int64_t held = std::max<int64_t>(1, kHeld / (4 * kOuts * b.inputs)) * kOuts;
    for (int64_t start = 0; start < outs; start += held) {
        const int64_t stop = std::min(outs, start + held);
        for (int64_t row = 0; row < rows; row += kRows) {
            const int64_t some = std::min<int64_t>(kRows, rows - row);
            for (int64_t o = start; o < stop;) {
                Block each = b;
                each.x += row * b.ldx;
                each.w += o * b.ldw;
                each.y += row * b.ldy + o;
                const bool full = stop - o >= kOuts;
                full ? rows_of<kOuts>(each, some) : rows_of<1>(each, some);
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
