// Linear layers over few rows, in the layout in which the model holds them.
#pragma once

#include "model.h"

namespace rlcomp {

// y = x w^T + bias, or y += that, of rows that are ldx and ldy numbers apart. Products are added in
// W chains of at most 64, whatever the other rows are: a row's numbers depend on it alone.
void linear(const Linear& layer, const float* x, int64_t ldx, int64_t rows, float* y, int64_t ldy,
            bool add = false);

}  // namespace rlcomp
