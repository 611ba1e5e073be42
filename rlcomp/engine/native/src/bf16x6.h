// Float32 product of matrices by six bfloat16 products, on the matrix unit of Intel (AMX).
#pragma once

#include <cstdint>

namespace rlcomp {

// A matrix: number (i, j) is at i * row + j * column.
template <class T>
struct Strided {
    T* at;
    int64_t row, column;

    Strided from(int64_t i, int64_t j) const { return {at + i * row + j * column, row, column}; }
    Strided transposed() const { return {at, column, row}; }
};
using Input = Strided<const float>;
using Output = Strided<float>;

// Returns whether this processor has the unit; requests the right to use it.
bool has_bf16x6();

// Computes C [m, n] = A [m, k] B [k, n], or C += A B. m, n and k are positive; the rows or the
// columns of each matrix are contiguous. The order of the sums depends on k and on whether m < n,
// no more.
void bf16x6(Input a, Input b, Output c, int64_t m, int64_t n, int64_t k, bool add);

}  // namespace rlcomp
