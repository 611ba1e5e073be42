#include "attention.h"

#include <algorithm>

namespace rlcomp {
namespace {

// Queries that read a key together, and vectors of a value that are summed together, in registers.
#if defined(__AVX512F__)
constexpr int kQueries = 8, kValues = 2;
#elif defined(__AVX2__)
constexpr int kQueries = 2, kValues = 4;
#else
constexpr int kQueries = 2, kValues = 4;
#endif
constexpr int kTile = 8;                 // queries whose scores are stored at a time
constexpr int kColumns = kTokens / W;    // vectors that hold a number for each token of a page

// Prefetches numbers of the page that is read next. Pages lie apart in memory, so that the hardware
// does not prefetch them.
inline void fetch(const float* numbers, int64_t count) {
    constexpr int64_t kLine = 16;  // floats of a cache line
    for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(numbers + i);
}

// Computes the scores of Q queries [Q][size] with the keys of a page, [size][kTokens]. `next` is
// the page to prefetch, `ld` the distance of two rows of scores.
template <int Q>
inline void scores(const float* q, int64_t size, const float* keys, const float* next, float* into,
                   int64_t ld) {
    Vec acc[Q][kColumns];
#pragma GCC unroll 8
    for (int i = 0; i < Q; ++i)
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) acc[i][c] = Vec{};
    for (int64_t d = 0; d < size; ++d) {
        if (Q == 1) fetch(next + d * kTokens, kTokens);
        Vec k[kColumns];
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) k[c] = load(keys + d * kTokens + c * W);
#pragma GCC unroll 8
        for (int i = 0; i < Q; ++i) {
            const Vec one = splat(q[i * size + d]);
#pragma GCC unroll 8
            for (int c = 0; c < kColumns; ++c) acc[i][c] += one * k[c];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < Q; ++i)
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) store(into + i * ld + c * W, acc[i][c]);
}

// Adds C vectors of the values [count][size], weighted for each of Q queries, to [Q][size].
template <int Q, int C>
inline void values(const float* weights, int64_t ld, const float* v, const float* next,
                   int64_t size, int64_t count, float* into) {
    Vec acc[Q][C];
#pragma GCC unroll 8
    for (int i = 0; i < Q; ++i)
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) acc[i][c] = load(into + i * size + c * W);
    for (int64_t t = 0; t < count; ++t) {
        if (Q == 1) fetch(next + t * size, C * W);
        Vec each[C];
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) each[c] = load(v + t * size + c * W);
#pragma GCC unroll 8
        for (int i = 0; i < Q; ++i) {
            const Vec weight = splat(weights[i * ld + t]);
#pragma GCC unroll 8
            for (int c = 0; c < C; ++c) acc[i][c] += weight * each[c];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < Q; ++i)
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) store(into + i * size + c * W, acc[i][c]);
}

// Calls `call` for queries `first` to `count`: for Q at a time, then for the rest by halves of Q.
template <int Q, class Call>
inline void by_queries(int64_t first, int64_t count, Call call) {
    for (; count - first >= Q; first += Q) call(std::integral_constant<int, Q>{}, first);
    if constexpr (Q > 1) by_queries<Q / 2>(first, count, call);
}

// Like by_queries, for vectors of a value.
template <int C, class Call>
inline void by_vectors(int64_t first, int64_t count, Call call) {
    for (; count - first >= C; first += C) call(std::integral_constant<int, C>{}, first);
    if constexpr (C > 1) by_vectors<C / 2>(first, count, call);
}

// Some queries, and a sequence whose pages all of them read.
struct Reading {
    const Sequence& sequence;
    const Sequence& next;  // the sequence that is read next: its first page is prefetched
    int64_t tokens;        // number of tokens to read
    int64_t keys, values, size;  // offsets of keys and values in a page, and the size of a head
    int64_t queries;             // number of queries

    void score(const float* q, float* into, int64_t ld) const {
        for (int64_t page = 0; page * kTokens < tokens; ++page) {
            const float* k = at(page) + keys;
            const float* after = at(page + 1) + keys;
            by_queries<kQueries>(0, queries, [&](auto count, int64_t first) {
                scores<count.value>(q + first * size, size, k, after,
                                    into + first * ld + page * kTokens, ld);
            });
        }
    }

    void read(const float* weights, int64_t ld, float* into) const {
        for (int64_t page = 0; page * kTokens < tokens; ++page) {
            const float* v = at(page) + values;
            const float* after = at(page + 1) + values;
            const int64_t some = std::min(kTokens, tokens - page * kTokens);
            by_queries<kQueries>(0, queries, [&](auto count, int64_t first) {
                by_vectors<kValues>(0, size / W, [&](auto vectors, int64_t number) {
                    const int64_t d = number * W;
                    rlcomp::values<count.value, vectors.value>(
                        weights + first * ld + page * kTokens, ld, v + d, after + d, size, some,
                        into + first * size + d);
                });
            });
        }
    }

  private:
    const float* at(int64_t page) const {
        return (page * kTokens < tokens ? sequence.pages[page] : next.pages[0]).get();
    }
};

// Replaces a row of scores, in whole vectors, by weights; returns the sum to divide them by.
inline float weigh(float* row, int64_t count) {
    Vec top = load(row);
    for (int64_t i = W; i < count; i += W) top = larger(load(row + i), top);
    const Vec most = splat(largest(top));
    Vec total{};
    for (int64_t i = 0; i < count; i += W) {
        const Vec weight = exponential(load(row + i) - most);
        store(row + i, weight);
        total += weight;
    }
    return sum(total);
}

}  // namespace

void Attention::tile(int64_t layer, int64_t head, const Query* queries, int64_t count) {
    const int64_t size = shape_.size, own = model_.head_size;
    const Sequence* parent = queries[0].entry->sequence->parent.get();
    const int64_t before = parent ? parent->length : 0;
    const int64_t shared = rounded_up(before, kTokens);
    int64_t longest = 0;
    for (int64_t i = 0; i < count; ++i) longest = std::max(longest, queries[i].entry->place + 1);
    const int64_t ld = shared + rounded_up(longest, kTokens);
    asked_.assign(kTile * size, 0.0f);
    read_.assign(kTile * size, 0.0f);
    if (static_cast<int64_t>(scores_.size()) < kTile * ld) scores_.resize(kTile * ld);
    for (int64_t i = 0; i < count; ++i)
        for (int64_t d = 0; d < own; ++d)
            asked_[i * size + d] = queries[i].q[d] * static_cast<float>(model_.scale);

    const int64_t keys = shape_.keys(layer, head), values = shape_.values(layer, head);
    const auto reading = [&](const Sequence& sequence, const Sequence& next, int64_t tokens,
                             int64_t some) {
        return Reading{sequence, next, tokens, keys, values, size, some};
    };
    // Calls `call` for each run of queries of the same sequence, with the index of its first query
    // and the reading of the sequence.
    const auto by_sequence = [&](auto call) {
        for (int64_t first = 0, next; first < count; first = next) {
            int64_t last = 0;
            const Sequence* sequence = queries[first].entry->sequence;
            for (next = first; next < count && queries[next].entry->sequence == sequence; ++next)
                last = std::max(last, queries[next].entry->place);
            const Sequence& after = *queries[next < count ? next : 0].entry->sequence;
            call(first, reading(*sequence, after, last + 1, next - first));
        }
    };
    constexpr float kNever = -INFINITY;
    const Sequence& one = *queries[0].entry->sequence;
    if (before) reading(*parent, one, before, count).score(asked_.data(), scores_.data(), ld);
    by_sequence([&](int64_t first, const Reading& each) {
        each.score(asked_.data() + first * size, scores_.data() + first * ld + shared, ld);
    });
    float inverse[kTile];
    for (int64_t i = 0; i < count; ++i) {
        float* row = scores_.data() + i * ld;
        const int64_t seen = shared + queries[i].entry->place + 1;
        std::fill(row + before, row + shared, kNever);
        std::fill(row + seen, row + ld, kNever);
        inverse[i] = 1.0f / weigh(row, rounded_up(seen, kTokens));
        std::fill(row + rounded_up(seen, kTokens), row + ld, 0.0f);
    }
    if (before) reading(*parent, one, before, count).read(scores_.data(), ld, read_.data());
    by_sequence([&](int64_t first, const Reading& each) {
        each.read(scores_.data() + first * ld + shared, ld, read_.data() + first * size);
    });
    for (int64_t i = 0; i < count; ++i)
        for (int64_t d = 0; d < own; ++d) queries[i].out[d] = read_[i * size + d] * inverse[i];
}

void Attention::attend(int64_t layer, const std::vector<Entry>& entries, const float* q,
                       float* out) {
    const int64_t group = model_.heads / model_.kv_heads, size = model_.head_size;
    const int64_t ld = model_.heads * size;
    for (size_t first = 0, next; first < entries.size(); first = next) {
        const Sequence* parent = entries[first].sequence->parent.get();
        for (next = first; next < entries.size(); ++next)
            if (entries[next].sequence->parent.get() != parent) break;
        for (int64_t head = 0; head < model_.kv_heads; ++head) {
            queries_.clear();
            for (size_t n = first; n < next; ++n)
                for (int64_t h = head * group; h < (head + 1) * group; ++h)
                    queries_.push_back({&entries[n], q + n * ld + h * size, out + n * ld + h * size});
            const int64_t all = static_cast<int64_t>(queries_.size());
            for (int64_t at = 0; at < all; at += kTile)
                tile(layer, head, queries_.data() + at, std::min<int64_t>(kTile, all - at));
        }
    }
}

}  // namespace rlcomp
