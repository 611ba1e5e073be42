// Random shapes and trees through the kernels of the update, against the formulas in double; built
// with sanitizers by test_sanitized_update.py. All memory is as large as it has to be, and no larger.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "bf16x6.cpp"
#include "norm_gate.cpp"
#include "signals.cpp"
#include "softmax.cpp"
#include "tree_attention.cpp"

using namespace rlcomp;
using Numbers = std::vector<float>;
using Doubles = std::vector<double>;

static std::mt19937 draw(7);

static int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(draw);
}

static Numbers random(int64_t count) {
    Numbers found(count);
    std::normal_distribution<float> normal;
    for (float& x : found) x = normal(draw);
    return found;
}

static void expect(bool good, const char* what) {
    if (good) return;
    std::printf("wrong: %s\n", what);
    std::exit(1);
}

static bool close(const Numbers& found, const Doubles& wanted) {
    double most = 1.0;
    for (double x : wanted) most = std::max(most, std::fabs(x));
    for (size_t i = 0; i < wanted.size(); ++i)
        if (!(std::fabs(found[i] - wanted[i]) <= 2e-4 * most)) return false;
    return true;
}

// A tree: nodes after their descendants; which tokens each token sees.
struct Tree {
    std::vector<Node> nodes;
    std::vector<std::vector<int64_t>> seen;
    int64_t tokens = 0;

    void grow(std::vector<int64_t> path, int depth, int64_t longest) {
        const int64_t start = tokens, length = number(1, longest);
        for (int64_t i = 0; i < length; ++i) {
            path.push_back(tokens++);
            seen.push_back(path);
        }
        const int64_t stop = tokens;
        if (depth > 0)
            for (int64_t child = number(0, 3); child > 0; --child) grow(path, depth - 1, longest);
        nodes.push_back({start, stop, tokens});
    }
};

static void attention() {
    Tree tree;
    const int64_t longest = number(0, 9) ? 9 : 300;
    for (int64_t roots = number(1, 3); roots > 0; --roots) tree.grow({}, number(0, 2), longest);
    const int64_t T = tree.tokens, kv = number(1, 3), group = number(1, 3), H = kv * group;
    const int64_t D = number(0, 1) ? number(1, 40) : 16 * number(1, 5);
    const bool turned = D % 2 == 0 && number(0, 1);
    const int64_t gap = number(0, 3);  // rows may be apart
    const double scale = 0.3;
    const auto of = [&](int64_t heads) { return random(T * (heads * D + gap)); };
    Numbers q = of(H), k = of(kv), v = of(kv), g = of(H), out = of(H), dq = of(H), dk = of(kv),
            dv = of(kv), lse(H * T), cosine(T * D), sine(T * D);
    for (int64_t t = 0; t < T; ++t)
        for (int64_t d = 0; d < D / 2; ++d) {
            const float angle = random(1)[0];
            cosine[t * D + d] = cosine[t * D + d + D / 2] = std::cos(angle);
            sine[t * D + d] = sine[t * D + d + D / 2] = std::sin(angle);
        }
    const Heads heads{T, H, kv, D, scale, tree.nodes.data(), (int64_t)tree.nodes.size(),
                      turned ? cosine.data() : nullptr, turned ? sine.data() : nullptr};
    const auto rows = [&](Numbers& x, int64_t n) { return Rows{x.data(), n * D + gap}; };
    rlcomp_tree_attention(&heads, rows(q, H), rows(k, kv), rows(v, kv), rows(out, H), lse.data());
    rlcomp_tree_attention_backward(&heads, rows(q, H), rows(k, kv), rows(v, kv), rows(out, H),
                                   lse.data(), rows(g, H), rows(dq, H), rows(dk, kv), rows(dv, kv));
    // The formulas. way 1 turns, -1 turns back.
    const auto rotate = [&](const Doubles& x, int64_t t, double way) {
        Doubles y = x;
        if (turned)
            for (int64_t d = 0; d < D / 2; ++d) {
                const double c = cosine[t * D + d], s = way * sine[t * D + d];
                y[d] = x[d] * c - x[d + D / 2] * s;
                y[d + D / 2] = x[d + D / 2] * c + x[d] * s;
            }
        return y;
    };
    const auto row = [&](const Numbers& x, int64_t n, int64_t t, int64_t h) {
        const float* at = &x[t * (n * D + gap) + h * D];
        return Doubles(at, at + D);
    };
    const auto dot = [&](const Doubles& a, const Doubles& b) {
        double total = 0;
        for (int64_t d = 0; d < D; ++d) total += a[d] * b[d];
        return total;
    };
    std::vector<Doubles> key_slopes(T * kv, Doubles(D)), value_slopes(T * kv, Doubles(D));
    for (int64_t h = 0; h < H; ++h)
        for (int64_t t = 0; t < T; ++t) {
            const Doubles ask = rotate(row(q, H, t, h), t, 1), back = row(g, H, t, h);
            Doubles weights, read(D), slope(D);
            double top = -1e300, total = 0;
            for (int64_t s : tree.seen[t]) {
                weights.push_back(scale * dot(ask, rotate(row(k, kv, s, h / group), s, 1)));
                top = std::max(top, weights.back());
            }
            for (double& w : weights) total += w = std::exp(w - top);
            for (size_t n = 0; n < weights.size(); ++n) {
                const Doubles value = row(v, kv, tree.seen[t][n], h / group);
                weights[n] /= total;
                for (int64_t d = 0; d < D; ++d) read[d] += weights[n] * value[d];
            }
            expect(close({out.begin() + t * (H * D + gap) + h * D,
                          out.begin() + t * (H * D + gap) + (h + 1) * D}, read), "attention");
            expect(std::fabs(lse[h * T + t] - top - std::log(total)) < 1e-4, "log-sum-exp");
            const double mean = dot(back, read);
            for (size_t n = 0; n < weights.size(); ++n) {
                const int64_t s = tree.seen[t][n], at = s * kv + h / group;
                const Doubles key = rotate(row(k, kv, s, h / group), s, 1);
                const double by =
                    scale * weights[n] * (dot(back, row(v, kv, s, h / group)) - mean);
                for (int64_t d = 0; d < D; ++d) {
                    slope[d] += by * key[d];
                    key_slopes[at][d] += by * ask[d];
                    value_slopes[at][d] += weights[n] * back[d];
                }
            }
            const Numbers found(dq.begin() + t * (H * D + gap) + h * D,
                                dq.begin() + t * (H * D + gap) + (h + 1) * D);
            expect(close(found, rotate(slope, t, -1)), "gradient of queries");
        }
    for (int64_t t = 0; t < T; ++t)
        for (int64_t h = 0; h < kv; ++h) {
            const int64_t at = t * (kv * D + gap) + h * D;
            const Numbers keys(dk.begin() + at, dk.begin() + at + D);
            const Numbers values(dv.begin() + at, dv.begin() + at + D);
            expect(close(keys, rotate(key_slopes[t * kv + h], t, -1)), "gradient of keys");
            expect(close(values, value_slopes[t * kv + h]), "gradient of values");
        }
}

static void norm() {
    const int64_t rows = number(1, 150), size = number(1, 70);
    const double eps = 0.1;
    const Numbers x = random(rows * size), weight = random(size), g = random(rows * size);
    Numbers out(rows * size), scale(rows), dx(rows * size), dw(size);
    rlcomp_rms_norm(x.data(), weight.data(), eps, rows, size, out.data(), scale.data());
    const bool trained = number(0, 1);
    rlcomp_rms_norm_backward(x.data(), weight.data(), scale.data(), g.data(), rows, size, dx.data(),
                             trained ? dw.data() : nullptr);
    Doubles normed(rows * size), slopes(rows * size), of_weight(size);
    for (int64_t r = 0; r < rows; ++r) {
        double square = 0, along = 0;
        for (int64_t i = 0; i < size; ++i) square += (double)x[r * size + i] * x[r * size + i];
        const double factor = 1 / std::sqrt(square / size + eps);
        for (int64_t i = r * size; i < (r + 1) * size; ++i) {
            const double w = weight[i - r * size];
            normed[i] = w * x[i] * factor;
            of_weight[i - r * size] += g[i] * x[i] * factor;
            along += g[i] * w * x[i] * factor;
        }
        for (int64_t i = r * size; i < (r + 1) * size; ++i)
            slopes[i] = factor * (g[i] * weight[i - r * size] - x[i] * factor * along / size);
    }
    expect(close(out, normed), "norm");
    expect(close(dx, slopes), "gradient of the norm");
    expect(!trained || close(dw, of_weight), "gradient of the norm's weight");
}

static void gate() {
    const int64_t count = number(1, 200);
    const Numbers x = random(count), up = random(count), g = random(count);
    Numbers out(count), dx(count), dup(count);
    rlcomp_gate(x.data(), up.data(), count, out.data());
    rlcomp_gate_backward(x.data(), up.data(), g.data(), count, dx.data(), dup.data());
    Doubles values(count), slopes(count), of_up(count);
    for (int64_t i = 0; i < count; ++i) {
        const double s = 1 / (1 + std::exp(-(double)x[i]));
        values[i] = x[i] * s * up[i];
        of_up[i] = g[i] * x[i] * s;
        slopes[i] = g[i] * up[i] * s * (1 + x[i] * (1 - s));
    }
    expect(close(out, values), "gate");
    expect(close(dx, slopes), "gradient of the gate");
    expect(close(dup, of_up), "gradient of what is gated");
}

static void softmax() {
    const int64_t rows = number(1, 4), size = number(0, 3) ? number(1, 70) : number(1000, 1100);
    const double temperature = number(0, 1) ? 1.0 : 0.7;
    const bool masked = number(0, 1);
    const Numbers logits = random(rows * size), g = random(rows);
    Numbers bias(size), log_probs(rows), entropies(rows), slopes(rows * size),
        of_entropy(rows * size);
    std::vector<int64_t> tokens(rows);
    for (int64_t i = 1; i < size; ++i)
        if (number(0, 3) == 0) bias[i] = -INFINITY;
    const float* by = masked ? bias.data() : nullptr;
    rlcomp_log_probs(logits.data(), by, temperature, rows, size, tokens.data(), log_probs.data());
    rlcomp_entropies(logits.data(), by, temperature, rows, size, entropies.data());
    rlcomp_log_probs_backward(logits.data(), by, temperature, rows, size, tokens.data(), g.data(),
                              slopes.data());
    rlcomp_entropies_backward(logits.data(), by, temperature, rows, size, g.data(),
                              of_entropy.data());
    for (int64_t r = 0; r < rows; ++r) {
        double total = 0, entropy = 0;
        const auto weight = [&](int64_t i) {
            return std::exp(logits[r * size + i] / temperature + (masked ? bias[i] : 0.0));
        };
        for (int64_t i = 0; i < size; ++i) total += weight(i);
        for (int64_t i = 0; i < size; ++i) {
            const double p = weight(i) / total;
            if (p > 0) entropy -= p * std::log(p);
            const double slope = g[r] * ((i == 0) - p) / temperature;
            expect(std::fabs(slopes[r * size + i] - slope) < 1e-5, "gradient of a log-prob");
        }
        for (int64_t i = 0; i < size; ++i) {
            const double p = weight(i) / total;
            const double slope = p > 0 ? -g[r] * p * (std::log(p) + entropy) / temperature : 0.0;
            expect(std::fabs(of_entropy[r * size + i] - slope) < 1e-5, "gradient of an entropy");
        }
        expect(std::fabs(entropies[r] - entropy) < 1e-5, "entropy");
        expect(std::fabs(log_probs[r] - std::log(weight(0) / total)) < 1e-5, "log-prob");
    }
}

// Matrices end where their last number does, and lie either way.
static void product() {
    const int64_t m = number(1, 90), n = number(1, 90), k = number(0, 3) ? number(1, 80) : 600;
    const bool a_turned = number(0, 1), b_turned = number(0, 1), c_turned = number(0, 1);
    const Numbers a = random(m * k), b = random(k * n);
    Numbers c = random(m * n);
    const auto at = [](bool turned, int64_t rows, int64_t columns, int64_t i, int64_t j) {
        return turned ? j * rows + i : i * columns + j;
    };
    const bool add = number(0, 1);
    Doubles wanted(m * n);
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            double& sum = wanted[at(c_turned, m, n, i, j)];
            sum = add ? c[at(c_turned, m, n, i, j)] : 0.0;
            for (int64_t l = 0; l < k; ++l)
                sum += (double)a[at(a_turned, m, k, i, l)] * b[at(b_turned, k, n, l, j)];
        }
    const auto row = [](bool turned, int64_t columns) { return turned ? 1 : columns; };
    const auto column = [](bool turned, int64_t rows) { return turned ? rows : 1; };
    bf16x6({a.data(), row(a_turned, k), column(a_turned, m)},
           {b.data(), row(b_turned, n), column(b_turned, k)},
           {c.data(), row(c_turned, n), column(c_turned, m)}, m, n, k, add);
    for (size_t i = 0; i < c.size(); ++i)
        expect(std::fabs(c[i] - wanted[i]) < 1e-6 * k + 1e-6, "product");
}

// Others may have set the tiles up: one of three rows and eight bytes is as it was.
static void tiles() {
#if defined(__AMX_BF16__)
    alignas(64) uint8_t mine[64] = {1}, found[64];
    mine[16] = 8, mine[48] = 3;
    asm volatile("" ::"r"(mine) : "memory");
    _tile_loadconfig(mine);
    product();
    _tile_storeconfig(found);
    asm volatile("" ::"r"(found) : "memory");
    _tile_release();
    expect(std::memcmp(mine, found, sizeof mine) == 0, "the tiles of others");
#endif
}

int main(int, char** arguments) {
    const bool products = has_bf16x6();
    for (int64_t round = std::atoll(arguments[1]); round > 0; --round) {
        if (products) product(), tiles();
        attention();
        norm();
        gate();
        softmax();
    }
    std::puts("right");
}
