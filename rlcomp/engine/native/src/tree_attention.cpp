// Attention over a tree of packed tokens, without masks: forward and backward.
//
// A node is a range of the list of tokens. Its own tokens attend to it causally, and all tokens
// from its end to the end of its subtree attend to all of it. So the keys of a prompt are
// multiplied at once with the queries of all of its answers. The tiles of a token's keys are merged
// by log-sum-exp, one after the other (Dao 2023, arXiv:2307.08691, section 3.1). The backward pass
// computes the weights again from the log-sum-exp.
#include <cmath>
#include <limits>
#include <vector>

#include "api.h"
#include "product.h"
#include "signals.h"

namespace rlcomp {
namespace {

// Maximum numbers of keys and queries of a tile: its scores stay in the nearest cache.
constexpr int64_t kKeys = 128;
constexpr int64_t kQueries = 48;
// Maximum number of queries of a causal tile, about half of whose scores are not used.
constexpr int64_t kCausal = 24;
constexpr float kNever = -std::numeric_limits<float>::infinity();

}  // namespace

extern "C" {
// These structs are the ABI; tree_attention.py repeats them.
struct Node {
    int64_t start, stop;  // range of its tokens
    int64_t reach;        // end of the tokens of its subtree
};

struct Heads {
    int64_t tokens, heads, kv_heads, size;
    double scale;
    const Node* node;
    int64_t nodes;
    const float* cosine;  // [tokens, size], rotary embedding of queries and keys; null for none
    const float* sine;
};

// A tensor [tokens, heads, size]; `row` is the distance of two tokens.
struct Rows {
    float* at;
    int64_t row;
};
}

namespace {

// The rows of a head are far apart, so that the hardware does not prefetch them: rows are
// prefetched this many rows ahead.
constexpr int64_t kAhead = 8;

inline void expect_rows(const float* at, int64_t row, int64_t size) {
    for (int64_t d = 0; d < size; d += 16) __builtin_prefetch(at + kAhead * row + d);
}

// Rows of one head, [tokens, size rounded up to vectors]; `row` is the distance of two tokens.
struct View {
    float* at;
    int64_t row;

    float* of(int64_t i) const { return at + i * row; }
};

// Rotates the pairs (d, d + size / 2) of a token by the angles of its position; back if `way` is
// -1.
void rotate(const Heads& heads, int64_t token, const float* x, float way, float* into) {
    const int64_t half = heads.size / 2;
    const float *c = heads.cosine + token * heads.size, *s = heads.sine + token * heads.size;
    int64_t d = 0;
    for (; d + W <= half; d += W) {
        const Vec a = load(x + d), b = load(x + half + d);
        const Vec cosine = load(c + d), sine = load(s + d) * way;
        store(into + d, a * cosine - b * sine);
        store(into + half + d, b * cosine + a * sine);
    }
    for (; d < half; ++d) {
        const float a = x[d], b = x[half + d];
        into[d] = a * c[d] - b * s[d] * way;
        into[half + d] = b * c[d] + a * s[d] * way;
    }
}

// Returns whether the rows of a head are used in place: they are whole vectors, and not rotated.
// `turned`: whether rotary embeddings apply to this tensor (queries and keys).
bool in_place(const Heads& heads, bool turned) {
    return heads.size % W == 0 && !(turned && heads.cosine);
}

// Returns where to write the results of a head: in place, or in `copy`, which put_back() reads.
View space(const Heads& heads, Rows rows, int64_t head, std::vector<float>& copy, bool turned) {
    if (in_place(heads, turned)) return {rows.at + head * heads.size, rows.row};
    const int64_t wide = rounded_up(heads.size, W);
    copy.resize(static_cast<size_t>(heads.tokens * wide));
    return {copy.data(), wide};
}

// Returns the rows of a head: in place, or as a copy that is rotated and padded with zeros.
View viewed(const Heads& heads, Rows rows, int64_t head, std::vector<float>& copy, bool turned) {
    const View view = space(heads, rows, head, copy, turned);
    if (in_place(heads, turned)) return view;
    for (int64_t i = 0; i < heads.tokens; ++i) {
        const float* from = rows.at + i * rows.row + head * heads.size;
        float* into = view.of(i);
        expect_rows(from, rows.row, heads.size);
        if (turned && heads.cosine)
            rotate(heads, i, from, 1.0f, into);
        else
            std::memcpy(into, from, heads.size * sizeof(float));
        std::fill(into + heads.size, into + view.row, 0.0f);
    }
    return view;
}

// Writes the results in a copy to their tensor, rotated back.
void put_back(const Heads& heads, View view, Rows rows, int64_t head, bool turned) {
    if (in_place(heads, turned)) return;
    for (int64_t i = 0; i < heads.tokens; ++i) {
        float* into = rows.at + i * rows.row + head * heads.size;
        expect_rows(into, rows.row, heads.size);
        if (turned && heads.cosine)
            rotate(heads, i, view.of(i), -1.0f, into);
        else
            std::memcpy(into, view.of(i), heads.size * sizeof(float));
    }
}

// The transposed keys or values of a head: [padded tokens / W][size][W]. Each node begins at a
// multiple of W, and is padded with zeros.
struct Columns {
    int64_t size;
    std::vector<int64_t> begin;  // of each node, in padded tokens
    std::vector<float> turned;

    void place(const Heads& heads) {
        size = heads.size;
        begin.clear();
        int64_t at = 0;
        for (int64_t n = 0; n < heads.nodes; ++n) {
            begin.push_back(at);
            at += rounded_up(heads.node[n].stop - heads.node[n].start, W);
        }
        turned.resize(static_cast<size_t>(at * size));
    }

    void take(const Heads& heads, View from) {
        for (int64_t n = 0; n < heads.nodes; ++n) {
            const Node& node = heads.node[n];
            for (int64_t i = node.start; i < node.stop; i += W)
                turn(from.of(i), from.row, std::min<int64_t>(W, node.stop - i),
                     &turned[(begin[n] + i - node.start) * size]);
        }
    }

    void turn(const float* x, int64_t row, int64_t count, float* into) const {
        int64_t d = 0;
        for (; count == W && d + W <= size; d += W) {
            Vec block[W];
            for (int lane = 0; lane < W; ++lane) block[lane] = load(x + lane * row + d);
            transpose(block);
            for (int lane = 0; lane < W; ++lane) store(into + (d + lane) * W, block[lane]);
        }
        for (; d < size; ++d)
            for (int64_t lane = 0; lane < W; ++lane)
                into[d * W + lane] = lane < count ? x[lane * row + d] : 0.0f;
    }
};

// A tile of scores: some queries, and some keys of a node.
struct Tile {
    int64_t query, queries;  // first token, number of tokens
    int64_t key, keys;       // first token, number of tokens
    int64_t column;          // index of the first key in Columns
    int64_t start;           // first token of the node
    bool causal;             // whether the queries are tokens of the node itself

    // Returns whether this is the first tile of its queries: a node comes before its ancestors, and
    // its tokens attend first to the first keys of the node.
    bool first() const { return causal && key == start; }
    // Returns how many of the keys occurred in an earlier tile: each causal tile adds keys.
    int64_t known() const { return causal ? std::min(keys, query - key) : keys; }
    // Returns the number of keys that query `r` of the tile attends to.
    int64_t seen(int64_t r) const { return causal ? std::min(keys, query + r - key + 1) : keys; }
    int64_t width() const { return rounded_up(keys, W); }
};

// Calls `visit` with every tile of every node.
template <class Visit>
void for_tiles(const Heads& heads, const Columns& columns, Visit visit) {
    for (int64_t n = 0; n < heads.nodes; ++n) {
        const Node& node = heads.node[n];
        for (int64_t key = node.start; key < node.stop; key += kKeys) {
            const int64_t column = columns.begin[n] + key - node.start;
            const int64_t keys = std::min(kKeys, node.stop - key);
            // Tokens before the first key do not attend to it.
            for (int64_t query = key; query < node.reach;) {
                const bool causal = query < node.stop;
                const int64_t most = causal ? kCausal : kQueries;
                const int64_t end = causal ? node.stop : node.reach;
                check_signals();
                const int64_t queries = std::min(most, end - query);
                const int64_t seen = causal ? std::min(keys, query + queries - key) : keys;
                visit(Tile{query, queries, key, seen, column, node.start, causal});
                query += queries;
            }
        }
    }
}

// Multiplies the rows of a tile with the columns of its keys.
void scores_of(const Tile& tile, View rows, const Columns& columns, float* into) {
    const Panels b{&columns.turned[tile.column * columns.size], W, columns.size * W};
    product<false>({rows.of(tile.query), rows.row, 1}, b, into, kKeys, tile.queries, columns.size,
                   tile.width());
}

// Sets the scores behind the `seen` first ones to -inf: their weight is 0.
inline void hide(float* row, int64_t seen, int64_t width) {
    for (int64_t i = seen; i < width; ++i) row[i] = kNever;
}

inline float largest_of(const float* row, int64_t width) {
    Vec most = load(row);
    for (int64_t i = W; i < width; i += W) most = larger(load(row + i), most);
    return largest_lane(most)[0];
}

// Computes C = A B if `first`, else C += A B.
void put(bool first, Factor a, Panels b, float* c, int64_t ldc, int64_t rows, int64_t inner,
         int64_t width) {
    if (first)
        product<false>(a, b, c, ldc, rows, inner, width);
    else
        product<true>(a, b, c, ldc, rows, inner, width);
}

// For each token of a head: the largest score so far, and the sum of exponentials relative to it.
struct Sums {
    std::vector<float> top, total;
};

// Replaces a row of scores by weights; rescales the earlier sum and output to the new largest
// score.
void merge_row(float* row, int64_t width, float scale, float& top, float& total, float* out,
               int64_t wide) {
    const float now = std::max(top, scale * largest_of(row, width));
    if (now > top && total > 0) {
        const float factor = std::exp(top - now);
        total *= factor;
        for (int64_t d = 0; d < wide; d += W) store(out + d, load(out + d) * factor);
    }
    top = now;
    Vec sums_of{};
    for (int64_t i = 0; i < width; i += W) {
        const Vec weight = exponential(load(row + i) * scale - now);
        store(row + i, weight);
        sums_of += weight;
    }
    total += sum(sums_of);
}

void forward_head(const Heads& heads, const Columns& keys, View q, View v, View out, Sums& sums,
                  float* scores) {
    const int64_t wide = rounded_up(heads.size, W);
    const float scale = static_cast<float>(heads.scale);
    sums.top.assign(heads.tokens, kNever);
    sums.total.assign(heads.tokens, 0.0f);
    for_tiles(heads, keys, [&](const Tile& tile) {
        scores_of(tile, q, keys, scores);
        for (int64_t r = 0; r < tile.queries; ++r) {
            const int64_t i = tile.query + r;
            hide(scores + r * kKeys, tile.seen(r), tile.width());
            merge_row(scores + r * kKeys, tile.width(), scale, sums.top[i], sums.total[i],
                      out.of(i), wide);
        }
        put(tile.first(), {scores, kKeys, 1}, {v.of(tile.key), v.row, W}, out.of(tile.query),
            out.row, tile.queries, tile.keys, wide);
    });
    for (int64_t i = 0; i < heads.tokens; ++i) {
        const float share = 1.0f / sums.total[i];
        for (int64_t d = 0; d < wide; d += W) store(out.of(i) + d, load(out.of(i) + d) * share);
    }
}

struct HeadBackward {
    int64_t wide;
    float scale;
    const Columns &keys, &values;
    View q, k, gradient;
    View dq, dk, dv;
    bool alone;  // whether it is the first query head of its kv head: dk and dv are not yet written
    const float* lse;
    const float* along;       // for each token, the dot product of gradient and output
    float *weights, *slopes;  // [kQueries, kKeys]

    void row(const Tile& tile, int64_t r) const {
        float *p = weights + r * kKeys, *s = slopes + r * kKeys;
        const int64_t width = tile.width();
        hide(p, tile.seen(r), width);
        const float sum = lse[tile.query + r], mean = along[tile.query + r];
        for (int64_t i = 0; i < width; i += W) {
            const Vec weight = exponential(load(p + i) * scale - sum);
            store(p + i, weight);
            store(s + i, weight * (load(s + i) - mean) * scale);
        }
    }

    void visit(const Tile& tile) const {
        const int64_t rows = tile.queries;
        scores_of(tile, q, keys, weights);
        scores_of(tile, gradient, values, slopes);
        for (int64_t r = 0; r < rows; ++r) row(tile, r);
        const Panels own{q.of(tile.query), q.row, W};
        const Panels back{gradient.of(tile.query), gradient.row, W};
        const Panels seen{k.of(tile.key), k.row, W};
        put(tile.first(), {slopes, kKeys, 1}, seen, dq.of(tile.query), dq.row, rows, tile.keys,
            wide);
        const int64_t known = alone ? tile.known() : tile.keys;
        for (const bool first : {false, true}) {
            const int64_t from = first ? known : 0, count = first ? tile.keys - known : known;
            put(first, {weights + from, 1, kKeys}, back, dv.of(tile.key + from), dv.row, count,
                rows, wide);
            put(first, {slopes + from, 1, kKeys}, own, dk.of(tile.key + from), dk.row, count, rows,
                wide);
        }
    }
};

// Computes the dot product of two rows for each token of a head.
void products_of(const Heads& heads, View a, View b, std::vector<float>& into) {
    into.resize(heads.tokens);
    for (int64_t i = 0; i < heads.tokens; ++i) {
        Vec total{};
        expect_rows(a.of(i), a.row, heads.size);
        expect_rows(b.of(i), b.row, heads.size);
        for (int64_t d = 0; d < heads.size; d += W) total += load(a.of(i) + d) * load(b.of(i) + d);
        into[i] = sum(total);
    }
}

// Memory that is reused from call to call: allocating it takes longer than computing in it.
struct Work {
    Columns keys, values;
    Sums sums;
    std::vector<float> q, k, v, out, gradient, dq, dk, dv, along, tile;
};

Work& work() {
    static thread_local Work found[2];  // the second is for a call by a signal handler
    return found[in_handler()];
}

}  // namespace

// Computes attention: `out` [tokens, heads, size], and the log-sum-exp of the scores, `lse` [heads,
// tokens].
RLCOMP_API int rlcomp_tree_attention(const Heads* heads, Rows q, Rows k, Rows v, Rows out,
                                      float* lse) {
    return guarded([&] {
        Work& w = work();
        const int64_t group = heads->heads / heads->kv_heads;
        w.keys.place(*heads);
        w.tile.resize(kQueries * kKeys);
        View values{};
        for (int64_t h = 0; h < heads->heads; ++h) {
            if (h % group == 0) {
                w.keys.take(*heads, viewed(*heads, k, h / group, w.k, true));
                values = viewed(*heads, v, h / group, w.v, false);
            }
            const View into = space(*heads, out, h, w.out, false);
            forward_head(*heads, w.keys, viewed(*heads, q, h, w.q, true), values, into, w.sums,
                         w.tile.data());
            put_back(*heads, into, out, h, false);
            for (int64_t i = 0; i < heads->tokens; ++i)
                lse[h * heads->tokens + i] = w.sums.top[i] + std::log(w.sums.total[i]);
        }
    });
}

// Computes the gradients of queries, keys and values from the gradient of `out`.
RLCOMP_API int rlcomp_tree_attention_backward(const Heads* heads, Rows q, Rows k, Rows v, Rows out,
                                               const float* lse, Rows gradient, Rows dq, Rows dk,
                                               Rows dv) {
    return guarded([&] {
        Work& w = work();
        const int64_t group = heads->heads / heads->kv_heads;
        w.keys.place(*heads);
        w.values.place(*heads);
        w.tile.resize(2 * kQueries * kKeys);
        View own_keys{}, key_slopes{}, value_slopes{};
        for (int64_t h = 0; h < heads->heads; ++h) {
            const int64_t shared = h / group;
            if (h % group == 0) {
                own_keys = viewed(*heads, k, shared, w.k, true);
                w.keys.take(*heads, own_keys);
                w.values.take(*heads, viewed(*heads, v, shared, w.v, false));
                key_slopes = space(*heads, dk, shared, w.dk, true);
                value_slopes = space(*heads, dv, shared, w.dv, false);
            }
            const View back = viewed(*heads, gradient, h, w.gradient, false);
            const View slopes = space(*heads, dq, h, w.dq, true);
            products_of(*heads, back, viewed(*heads, out, h, w.out, false), w.along);
            const HeadBackward head{rounded_up(heads->size, W),
                                    static_cast<float>(heads->scale),
                                    w.keys,
                                    w.values,
                                    viewed(*heads, q, h, w.q, true),
                                    own_keys,
                                    back,
                                    slopes,
                                    key_slopes,
                                    value_slopes,
                                    h % group == 0,
                                    lse + h * heads->tokens,
                                    w.along.data(),
                                    w.tile.data(),
                                    w.tile.data() + kQueries * kKeys};
            for_tiles(*heads, w.keys, [&](const Tile& tile) { head.visit(tile); });
            put_back(*heads, slopes, dq, h, true);
            if ((h + 1) % group == 0) {
                put_back(*heads, key_slopes, dk, shared, true);
                put_back(*heads, value_slopes, dv, shared, false);
            }
        }
    });
}

}  // namespace rlcomp
