// Root-mean-square norm and SiLU gate, forward and backward, each in one pass over memory.
#include <algorithm>
#include <vector>

#include "api.h"
#include "vector.h"

namespace rlcomp {
namespace {

// Calls `visit` for each vector of `count` numbers, with its first index and its number of lanes.
template <class Visit>
[[gnu::always_inline]] inline void for_vectors(int64_t count, Visit visit) {
    int64_t i = 0;
    for (; i + W <= count; i += W) visit(i, int64_t{W});
    if (i < count) visit(i, count - i);
}

inline Vec take(const float* p, int64_t lanes) { return lanes == W ? load(p) : load_some(p, lanes); }

inline void put(float* p, Vec v, int64_t lanes) {
    if (lanes == W)
        store(p, v);
    else
        std::memcpy(p, &v, static_cast<size_t>(lanes) * sizeof(float));
}

inline float dot(const float* a, const float* b, int64_t count) {
    Vec total{};
    for_vectors(count, [&](int64_t i, int64_t n) { total += take(a + i, n) * take(b + i, n); });
    return sum(total);
}

inline Vec sigmoid(Vec x) { return 1.0f / (1.0f + exponential(-x)); }

}  // namespace

// Computes out = weight * x * scale with scale = 1 / sqrt(mean(x^2) + eps), of rows of `size`
// numbers.
RLCOMP_API void rlcomp_rms_norm(const float* x, const float* weight, double eps, int64_t rows,
                                int64_t size, float* out, float* scale) {
    for (int64_t r = 0; r < rows; ++r, x += size, out += size) {
        const double mean = static_cast<double>(dot(x, x, size)) / static_cast<double>(size);
        const float factor = static_cast<float>(1.0 / std::sqrt(mean + eps));
        scale[r] = factor;
        for_vectors(size, [&](int64_t i, int64_t n) {
            put(out + i, take(weight + i, n) * (take(x + i, n) * factor), n);
        });
    }
}

// Computes dx = scale (g w - u mean(g w u)) with u = x scale; and dw, the sum of g u over the rows,
// unless dw is null.
RLCOMP_API void rlcomp_rms_norm_backward(const float* x, const float* weight, const float* scale,
                                         const float* g, int64_t rows, int64_t size, float* dx,
                                         float* dw) {
    // Sums of 64 rows are added to the total: short chains of sums round less.
    std::vector<float> part(static_cast<size_t>(size), 0.0f);
    if (dw) std::fill(dw, dw + size, 0.0f);
    for (int64_t r = 0; r < rows; ++r, x += size, g += size, dx += size) {
        const float factor = scale[r];
        Vec total{};
        for_vectors(size, [&](int64_t i, int64_t n) {
            const Vec along = take(g + i, n) * take(x + i, n);
            total += along * take(weight + i, n);
            put(&part[i], take(&part[i], n) + along * factor, n);
        });
        const float share = sum(total) * factor * factor / static_cast<float>(size);
        for_vectors(size, [&](int64_t i, int64_t n) {
            const Vec straight = take(g + i, n) * take(weight + i, n);
            put(dx + i, (straight - take(x + i, n) * share) * factor, n);
        });
        if (dw && (r % 64 == 63 || r + 1 == rows))
            for_vectors(size, [&](int64_t i, int64_t n) {
                put(dw + i, take(dw + i, n) + take(&part[i], n), n);
                put(&part[i], Vec{}, n);
            });
    }
}

// Computes out = silu(gate) * up.
RLCOMP_API void rlcomp_gate(const float* gate, const float* up, int64_t count, float* out) {
    for_vectors(count, [&](int64_t i, int64_t n) {
        const Vec x = take(gate + i, n);
        put(out + i, x * sigmoid(x) * take(up + i, n), n);
    });
}

// Computes the gradients of gate and up from the gradient g of `out`: silu'(x) = s (1 + x (1 - s))
// with s = sigmoid(x).
RLCOMP_API void rlcomp_gate_backward(const float* gate, const float* up, const float* g,
                                     int64_t count, float* dgate, float* dup) {
    for_vectors(count, [&](int64_t i, int64_t n) {
        const Vec x = take(gate + i, n), s = sigmoid(x), slope = take(g + i, n);
        put(dup + i, slope * (x * s), n);
        put(dgate + i, slope * take(up + i, n) * (s * (1.0f + x * (1.0f - s))), n);
    });
}

}  // namespace rlcomp
