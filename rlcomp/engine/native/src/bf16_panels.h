// Copies between float32 matrices and tiles of the matrix unit: one row a call, so that they can
// run while the unit multiplies.
#pragma once

#include <algorithm>

#include "bf16x6.h"
#include "product.h"

namespace rlcomp {

constexpr int64_t kSide = 16, kPair = 2 * kSide;  // rows of a tile, and of two tiles
constexpr int64_t kDepth = 32;                    // inputs of a tile: bfloat16 numbers of a row
constexpr int64_t kTile = kSide * kDepth;
constexpr int64_t kParts = 3;
// Numbers of kDepth inputs of two tiles: [part][tile].
constexpr int64_t kStep = kParts * 2 * kTile;

static_assert(W == kSide, "tiles are as wide as vectors");

constexpr uint32_t kUpper = 0xffff0000u;  // the digits of a bfloat16

// Splits numbers. A float32 has 24 binary digits, a bfloat16 8: x = x1 + x2 + x3 exactly, if digits
// are cut off and not rounded. Each part of the two vectors is written as one row of a tile.
inline void split(Vec low, Vec high, uint16_t* into) {
    for (int64_t part = 0; part < kParts; ++part) {
        const Vec a = (Vec)((Ints)low & kUpper), b = (Vec)((Ints)high & kUpper);
        const Ints row = (Ints)a | (Ints)b >> 16;
        std::memcpy(into + part * 2 * kTile, &row, sizeof row);
        low -= a;
        high -= b;
    }
}

// Splits a panel: up to 32 lines (rows of A, or columns of B) of inputs. Inputs i and i + 16 of a
// tile share a lane, in both factors.
class Splitter {
  public:
    enum Of { kRowsOfA, kColumnsOfB };

    Splitter(Input f, Of of, int64_t lines, int64_t inputs, uint16_t* into)
        : f_(f), of_(of), lines_(lines), inputs_(lines > 0 ? inputs : 0), into_(into) {}

    // Writes a row of a tile of each part; returns false if no row is left.
    [[gnu::always_inline]] bool next() {
        if (input_ >= inputs_) return false;
        if (row_ == 0) begin();
        split(load(low_ + row_ * apart_), load(high_ + row_ * apart_), into_ + row_ * kDepth);
        if (++row_ < kSide) return true;
        row_ = 0;
        into_ += kTile;
        if (half_ ^= 1) return true;
        input_ += kDepth;
        into_ += kStep - 2 * kTile;
        return true;
    }

  private:
    // Finds the rows of the next tile: in place, or in a copy that is padded with zeros.
    void begin() {
        const int64_t line = half_ * kSide, lines = lines_ - line, inputs = inputs_ - input_;
        const bool b = of_ == kColumnsOfB;
        const Input low = b ? f_.from(input_, line) : f_.from(line, input_);
        const Input high = b ? low.from(kSide, 0) : low.from(0, kSide);
        if (f_.column == 1 && lines >= kSide && inputs >= kDepth) {
            low_ = low.at, high_ = high.at, apart_ = f_.row;
            return;
        }
        copy(low, lines, inputs, held_);
        copy(high, lines, inputs - kSide, held_ + kSide * kSide);
        low_ = held_, high_ = held_ + kSide * kSide, apart_ = kSide;
    }

    void copy(Input from, int64_t lines, int64_t inputs, float* into) const {
        int64_t rows = lines, columns = inputs;
        if (of_ == kColumnsOfB) std::swap(rows, columns);
        const bool turned = from.column != 1;
        if (turned) std::swap(rows, columns), from = from.transposed();
        Vec v[kSide];
        for (int64_t i = 0; i < kSide; ++i) {
            const bool none = i >= rows || columns <= 0;
            v[i] = none ? Vec{}
                   : columns >= kSide ? load(from.at + i * from.row)
                                      : load_some(from.at + i * from.row, columns);
        }
        if (turned) transpose(v);
        for (int64_t i = 0; i < kSide; ++i) store(into + i * kSide, v[i]);
    }

    Input f_;
    Of of_;
    int64_t lines_, inputs_;
    uint16_t* into_;
    int64_t input_ = 0, half_ = 0, row_ = 0, apart_ = 0;
    const float *low_ = nullptr, *high_ = nullptr;
    alignas(64) float held_[2 * kSide * kSide];
};

// Writes the sums of two by two tiles, [32, 32], to C, or adds them to C.
class Writer {
  public:
    Writer() = default;
    Writer(float* sums, Output c, int64_t rows, int64_t columns, bool add)
        : sums_(sums), c_(c), rows_(rows), columns_(columns), add_(add), left_(4 * kSide) {}

    // Writes a row of a tile; returns false if no row is left.
    [[gnu::always_inline]] bool next() {
        if (left_ == 0) return false;
        const int64_t row = (4 * kSide - left_) % kSide;
        if (row == 0) begin();
        --left_;
        if (row >= lines_ || numbers_ <= 0) return true;
        float* to = at_ + row * apart_;
        const Vec sum = load(from_ + row * kPair);
        if (numbers_ >= kSide) {
            store(to, add_ ? load(to) + sum : sum);
        } else {
            const Vec some = add_ ? load_some(to, numbers_) + sum : sum;
            std::memcpy(to, &some, static_cast<size_t>(numbers_) * sizeof(float));
        }
        return true;
    }

  private:
    void begin() {
        const int64_t tile = 4 - left_ / kSide, i = tile / 2 * kSide, j = tile % 2 * kSide;
        from_ = sums_ + i * kPair + j;
        at_ = c_.from(i, j).at;
        lines_ = rows_ - i, numbers_ = columns_ - j, apart_ = c_.row;
        if (c_.column == 1) return;
        Vec v[kSide];
        for (int64_t r = 0; r < kSide; ++r) v[r] = load(from_ + r * kPair);
        transpose(v);
        for (int64_t r = 0; r < kSide; ++r) store(from_ + r * kPair, v[r]);
        std::swap(lines_, numbers_);
        apart_ = c_.column;
    }

    float* sums_ = nullptr;
    Output c_{};
    int64_t rows_ = 0, columns_ = 0;
    bool add_ = false;
    int64_t left_ = 0, lines_ = 0, numbers_ = 0, apart_ = 0;
    float *from_ = nullptr, *at_ = nullptr;
};

}  // namespace rlcomp
