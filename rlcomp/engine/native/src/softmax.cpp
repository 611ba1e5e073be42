// Functions of rows of logits, in two or three passes over a row: log-prob of a token, entropy, and
// the gradients of both. `mask` [size], or null, is added to every row: -inf where a token is never
// drawn.
#include <limits>

#include "api.h"
#include "signals.h"
#include "vector.h"

namespace rlcomp {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
// Numbers that are summed in float32; the sums of blocks are added in float64.
constexpr int64_t kBlock = 64 * W;

struct Row {
    const float* logits;
    const float* mask;
    int64_t size;
    float temperature;

    // Returns the masked logits, divided by the temperature, from the i-th on; -inf behind the
    // last.
    Vec at(int64_t i) const {
        const int64_t left = size - i;
        Vec x = splat(kNone), b{};
        if (left >= W) {
            x = load(logits + i);
            if (mask) b = load(mask + i);
        } else {
            std::memcpy(&x, logits + i, static_cast<size_t>(left) * sizeof(float));
            if (mask) b = load_some(mask + i, left);
        }
        return (temperature == 1.0f ? x : x / temperature) + b;
    }
    float one(int64_t i) const {
        return logits[i] / temperature + (mask ? mask[i] : 0.0f);
    }
    void put(float* into, int64_t i, Vec x) const {
        const int64_t left = size - i;
        std::memcpy(into + i, &x, static_cast<size_t>(left < W ? left : W) * sizeof(float));
    }
    float largest_logit() const {
        Vec top = splat(kNone);
        for (int64_t i = 0; i < size; i += W) top = larger(at(i), top);
        return largest(top);
    }
};

// Sums over a row of e = exp(z - top), and of e (z - top), which counts as 0 if e is 0.
struct Exponentials {
    double all = 0.0, weighted = 0.0;
};

template <bool Weighted>
Exponentials sums_of(const Row& row, float top) {
    Exponentials found;
    for (int64_t start = 0; start < row.size; start += kBlock) {
        const int64_t stop = start + kBlock < row.size ? start + kBlock : row.size;
        Vec all{}, weighted{};
        for (int64_t i = start; i < stop; i += W) {
            const Vec z = row.at(i) - top, e = exponential(z);
            all += e;
            if constexpr (Weighted) weighted += e == 0.0f ? Vec{} : e * z;
        }
        found.all += sum(all);
        if constexpr (Weighted) found.weighted += sum(weighted);
    }
    return found;
}

template <class Visit>
int for_rows(const float* logits, const float* mask, double temperature, int64_t rows,
              int64_t size, Visit visit) {
    return guarded([&] {
        for (int64_t r = 0; r < rows; ++r) {
            check_signals();
            const Row row{logits + r * size, mask, size, static_cast<float>(temperature)};
            visit(r, row, row.largest_logit());
        }
    });
}

}  // namespace

// Computes log p(token) = z_token - log sum exp(z), with z = logits / temperature + mask.
RLCOMP_API int rlcomp_log_probs(const float* logits, const float* mask, double temperature,
                                 int64_t rows, int64_t size, const int64_t* tokens, float* out) {
    return for_rows(logits, mask, temperature, rows, size, [&](int64_t r, const Row& row, float top) {
        const double total = sums_of<false>(row, top).all;
        out[r] = (row.one(tokens[r]) - top) - static_cast<float>(std::log(total));
    });
}

// Computes the entropy, -sum_v p_v log p_v.
RLCOMP_API int rlcomp_entropies(const float* logits, const float* mask, double temperature,
                                 int64_t rows, int64_t size, float* out) {
    return for_rows(logits, mask, temperature, rows, size, [&](int64_t r, const Row& row, float top) {
        const Exponentials sums = sums_of<true>(row, top);
        out[r] = static_cast<float>(std::log(sums.all) - sums.weighted / sums.all);
    });
}

// Computes the gradient of entropies H with respect to the logits: -g p_v (log p_v + H) /
// temperature.
RLCOMP_API int rlcomp_entropies_backward(const float* logits, const float* mask,
                                          double temperature, int64_t rows, int64_t size,
                                          const float* g, float* out) {
    return for_rows(logits, mask, temperature, rows, size, [&](int64_t r, const Row& row, float top) {
        const Exponentials sums = sums_of<true>(row, top);
        const Vec scale = splat(-g[r] / row.temperature / static_cast<float>(sums.all));
        // log p + H = z - top - (the mean of z - top)
        const Vec mean = splat(static_cast<float>(sums.weighted / sums.all));
        for (int64_t i = 0; i < size; i += W) {
            const Vec z = row.at(i) - top, e = exponential(z);
            row.put(out + r * size, i, e == 0.0f ? Vec{} : e * (z - mean) * scale);
        }
    });
}

// Computes the gradient of log-probs with respect to the logits: g (1[v = token] - p_v) /
// temperature.
RLCOMP_API int rlcomp_log_probs_backward(const float* logits, const float* mask,
                                          double temperature, int64_t rows, int64_t size,
                                          const int64_t* tokens, const float* g, float* out) {
    return for_rows(logits, mask, temperature, rows, size, [&](int64_t r, const Row& row, float top) {
        float* into = out + r * size;
        const float share = g[r] / row.temperature;
        const Vec scale = splat(-share / static_cast<float>(sums_of<false>(row, top).all));
        for (int64_t i = 0; i < size; i += W)
            row.put(into, i, exponential(row.at(i) - top) * scale);
        into[tokens[r]] += share;
    });
}

}  // namespace rlcomp
