// Linear layers over few rows, with weights in the layout of the model.
#pragma once

#include "model.h"

namespace rlcomp {

// Computes y = x w^T + bias; with `add`, y += x w^T + bias. ldx and ldy are the distances of two
// rows. Products are summed in W chains of at most 64 terms, for any number of rows: the result of
// a row does not depend on other rows.
void linear(const Linear& layer, const float* x, int64_t ldx, int64_t rows, float* y, int64_t ldy,
            bool add = false);

}  // namespace rlcomp
