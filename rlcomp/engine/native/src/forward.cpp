#include "forward.h"

#include <algorithm>

#include "linear.h"
#include "signals.h"

namespace rlcomp {
namespace {

// Tokens that pass through the layers together: their intermediate results fit in a near cache.
constexpr int64_t kChunk = 128;

// Computes the root-mean-square norm, or LayerNorm, of a row; `y` may be `x`.
void normed(const Norm& norm, const float* x, int64_t size, float* y) {
    const auto over = [&](auto term) {  // sum of a function of each number
        Vec total{};
        const int64_t whole = size / W * W;
        for (int64_t i = 0; i < whole; i += W) total += term(load(x + i));
        float rest = 0.0f;
        for (int64_t i = whole; i < size; ++i) rest += term(splat(x[i]))[0];
        return sum(total) + rest;
    };
    float mean = 0.0f;
    if (norm.centred) mean = over([](Vec v) { return v; }) / static_cast<float>(size);
    const Vec centre = splat(mean);
    const float square = over([&](Vec v) { return (v - centre) * (v - centre); });
    const float eps = static_cast<float>(norm.eps);
    const float scale = 1.0f / std::sqrt(square / static_cast<float>(size) + eps);
    for (int64_t i = 0; i < size; ++i) {
        const float unit = (x[i] - mean) * scale;
        y[i] = norm.bias ? unit * norm.weight[i] + norm.bias[i] : unit * norm.weight[i];
    }
}

// Applies the rotary position embedding to a head: feature i is paired with feature i + half.
void rotate(const Model& m, int64_t position, float* x) {
    const int64_t half = m.head_size / 2;
    const float* cosine = m.cosine + position * half;
    const float* sine = m.sine + position * half;
    for (int64_t i = 0; i < half; ++i) {
        const float a = x[i], b = x[i + half];
        x[i] = a * cosine[i] - b * sine[i];
        x[i + half] = b * cosine[i] + a * sine[i];
    }
}

Vec silu(Vec x) { return x / (exponential(-x) + 1.0f); }

// GELU of GPT-2: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
Vec gelu_tanh(Vec x) {
    const Vec u = 0.7978845608f * (x + 0.044715f * x * x * x);
    return x - x / (exponential(2.0f * u) + 1.0f);
}

template <class Function>
void activate(Function function, float* up, const float* gate, int64_t count) {
    const auto result = [&](Vec g, Vec u) { return gate ? function(g) * u : function(u); };
    const int64_t whole = count / W * W, rest = count - whole;
    for (int64_t i = 0; i < whole; i += W)
        store(up + i, result(gate ? load(gate + i) : Vec{}, load(up + i)));
    if (!rest) return;
    const Vec last = result(gate ? load_some(gate + whole, rest) : Vec{},
                            load_some(up + whole, rest));
    std::memcpy(up + whole, &last, rest * sizeof(float));
}

}  // namespace

void Forward::read(std::vector<Entry> entries) {
    const int64_t all = static_cast<int64_t>(entries.size());
    for (int64_t at = 0; at < all; at += kChunk)
        some({entries.begin() + at, entries.begin() + std::min(all, at + kChunk)});
}

void Forward::some(std::vector<Entry> entries) {
    embed(entries);
    for (int64_t number = 0; number < model_.layers; ++number) {
        check_signals();
        const Layer& layer = model_.layer[number];
        project(layer, entries);
        keep(number, entries);
        // Of the other tokens, only the keys and values of the last layer are read.
        if (number + 1 == model_.layers) keep_wanted(entries);
        attended_.resize(entries.size() * model_.heads * model_.head_size);
        attention_.attend(number, entries, q_.data(), attended_.data());
        finish(layer, static_cast<int64_t>(entries.size()));
    }
    for (size_t n = 0; n < entries.size(); ++n) {
        std::vector<float>& state = entries[n].sequence->state;
        state.resize(model_.hidden);
        normed(model_.norm, x_.data() + n * model_.hidden, model_.hidden, state.data());
    }
}

void Forward::embed(const std::vector<Entry>& entries) {
    const int64_t hidden = model_.hidden;
    x_.resize(entries.size() * hidden);
    for (size_t n = 0; n < entries.size(); ++n) {
        float* x = x_.data() + n * hidden;
        const float* token = model_.embedding + entries[n].token * hidden;
        std::copy(token, token + hidden, x);
        if (!model_.position_embedding) continue;
        const float* position = model_.position_embedding + entries[n].position() * hidden;
        for (int64_t i = 0; i < hidden; ++i) x[i] += position[i];
    }
}

void Forward::project(const Layer& layer, const std::vector<Entry>& entries) {
    const int64_t rows = static_cast<int64_t>(entries.size()), hidden = model_.hidden;
    const int64_t size = model_.head_size;
    y_.resize(rows * hidden);
    for (int64_t n = 0; n < rows; ++n)
        normed(layer.before_attention, x_.data() + n * hidden, hidden, y_.data() + n * hidden);
    const auto part = [&](const Linear& by, std::vector<float>& into) {
        into.resize(rows * by.out);
        linear(by, y_.data(), hidden, rows, into.data(), by.out);
    };
    part(layer.q, q_);
    part(layer.k, k_);
    part(layer.v, v_);
    const auto turn = [&](std::vector<float>& joined, const Norm& norm, int64_t heads) {
        for (int64_t n = 0; n < rows; ++n)
            for (int64_t h = 0; h < heads; ++h) {
                float* each = joined.data() + (n * heads + h) * size;
                if (norm.weight) normed(norm, each, size, each);
                if (model_.cosine) rotate(model_, entries[n].position(), each);
            }
    };
    turn(q_, layer.of_queries, model_.heads);
    turn(k_, layer.of_keys, model_.kv_heads);
}

void Forward::keep(int64_t number, const std::vector<Entry>& entries) {
    const int64_t size = model_.head_size, heads = model_.kv_heads;
    for (size_t n = 0; n < entries.size(); ++n) {
        const int64_t place = entries[n].place % kTokens;
        float* page = entries[n].sequence->pages[entries[n].place / kTokens].get();
        for (int64_t h = 0; h < heads; ++h) {
            const float* k = k_.data() + (n * heads + h) * size;
            const float* v = v_.data() + (n * heads + h) * size;
            float* keys = page + shape_.keys(number, h) + place;
            float* values = page + shape_.values(number, h) + place * shape_.size;
            for (int64_t d = 0; d < size; ++d) keys[d * kTokens] = k[d];
            for (int64_t d = size; d < shape_.size; ++d) keys[d * kTokens] = 0.0f;
            std::copy(v, v + size, values);
            std::fill(values + size, values + shape_.size, 0.0f);
        }
    }
}

void Forward::keep_wanted(std::vector<Entry>& entries) {
    const int64_t hidden = model_.hidden, width = model_.heads * model_.head_size;
    size_t kept = 0;
    for (size_t n = 0; n < entries.size(); ++n) {
        if (!entries[n].wanted) continue;
        if (kept < n) {
            entries[kept] = entries[n];
            std::copy_n(x_.data() + n * hidden, hidden, x_.data() + kept * hidden);
            std::copy_n(q_.data() + n * width, width, q_.data() + kept * width);
        }
        ++kept;
    }
    entries.resize(kept);
}

void Forward::finish(const Layer& layer, int64_t rows) {
    const int64_t hidden = model_.hidden, inner = model_.inner;
    linear(layer.out, attended_.data(), layer.out.in, rows, x_.data(), hidden, true);
    y_.resize(rows * hidden);
    for (int64_t n = 0; n < rows; ++n)
        normed(layer.before_feed, x_.data() + n * hidden, hidden, y_.data() + n * hidden);
    up_.resize(rows * inner);
    linear(layer.up, y_.data(), hidden, rows, up_.data(), inner);
    const float* gate = nullptr;
    if (layer.gate.weight) {
        gate_.resize(rows * inner);
        linear(layer.gate, y_.data(), hidden, rows, gate_.data(), inner);
        gate = gate_.data();
    }
    model_.activation == kSilu ? activate(silu, up_.data(), gate, rows * inner)
                               : activate(gelu_tanh, up_.data(), gate, rows * inner);
    linear(layer.down, up_.data(), inner, rows, x_.data(), hidden, true);
}

void logits(const Model& model, const float* states, int64_t rows, float* into) {
    linear(model.head, states, model.hidden, rows, into, model.head.out);
}

}  // namespace rlcomp
