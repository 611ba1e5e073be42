// A float32 product of matrices by six bfloat16 products, on Intel's matrix unit (AMX).
#pragma once

#include <cstdint>

namespace rlcomp {

// Number (i, j) is at i * row + j * column.
template <class T>
struct Strided {
    T* at;
    int64_t row, column;

    Strided from(int64_t i, int64_t j) const { return {at + i * row + j * column, row, column}; }
    Strided transposed() const { return {at, column, row}; }
};
using Input = Strided<const float>;
using Output = Strided<float>;

// Whether this processor has the unit, and this process may use it.
bool has_bf16x6();

// C [m, n] = A [m, k] B [k, n], or C += that; m, n and k are positive, and rows or columns of each
// lie side by side. The order in which a number of C is summed up depends on k, and on whether m < n.
void bf16x6(Input a, Input b, Output c, int64_t m, int64_t n, int64_t k, bool add);

}  // namespace rlcomp
