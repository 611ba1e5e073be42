// Attention over a tree of packed tokens, without masks: forward and backward.
//
// A node is a stretch of the list; its own tokens see it causally, and all tokens between its end
// and the end of its subtree see it whole. So a prompt is one product with all of its answers. The
// parts of a token's keys are merged by log-sum-exp as they come (Dao 2023, arXiv:2307.08691,
// section 3.1), and the backward pass computes the weights again from that sum.
#include <cmath>
#include <limits>
#include <vector>

#include "api.h"
#include "product.h"
#include "signals.h"

namespace rlcomp {
namespace {

// Keys of a block, of whose tile the scores stay in the nearest cache with so many queries.
constexpr int64_t kKeys = 128;
constexpr int64_t kQueries = 48;
// Queries of a tile on the diagonal, of which half is thrown away.
constexpr int64_t kCausal = 24;
constexpr float kNever = -std::numeric_limits<float>::infinity();

}  // namespace

extern "C" {
// These structs are the ABI; tree_attention.py repeats them.
struct Node {
    int64_t start, stop;  // its tokens
    int64_t reach;        // where its subtree ends
};

struct Heads {
    int64_t tokens, heads, kv_heads, size;
    double scale;
    const Node* node;
    int64_t nodes;
    const float* cosine;  // [tokens, size], rotary embedding of queries and keys; null for none
    const float* sine;
};

// [tokens, heads, size], rows `row` numbers apart.
struct Rows {
    float* at;
    int64_t row;
};
}

namespace {

// Rows of a head are far apart, and a processor that looks ahead does not see them coming.
constexpr int64_t kAhead = 8;

inline void expect_rows(const float* at, int64_t row, int64_t size) {
    for (int64_t d = 0; d < size; d += 16) __builtin_prefetch(at + kAhead * row + d);
}

// A head of some rows, read a vector at a time: [tokens, size rounded up to vectors].
struct View {
    float* at;
    int64_t row;

    float* of(int64_t i) const { return at + i * row; }
};

// Pairs (d, d + size / 2) of a token's numbers turned by its angle, or back where `way` is -1.
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

// Whether a head's rows are worked on where they are: whole vectors, as they are.
bool in_place(const Heads& heads, bool turned) {
    return heads.size % W == 0 && !(turned && heads.cosine);
}

// Where a head's results go: in place, or to memory from which `put_back` takes them.
View space(const Heads& heads, Rows rows, int64_t head, std::vector<float>& copy, bool turned) {
    if (in_place(heads, turned)) return {rows.at + head * heads.size, rows.row};
    const int64_t wide = rounded_up(heads.size, W);
    copy.resize(static_cast<size_t>(heads.tokens * wide));
    return {copy.data(), wide};
}

// A head's rows: in place, or a copy, turned by the tokens' angles, with zeros behind.
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

// Brings what was written to a copy to where it belongs, turned back.
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

// A head's keys or values, turned: [padded tokens / W][size][W]. Each node begins at a multiple of
// W, with zeros behind its last token.
struct Columns {
    int64_t size;
    std::vector<int64_t> begin;  // of each node
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

// Some queries and some keys of a node: the scores of a tile.
struct Tile {
    int64_t query, queries;  // from which token, how many
    int64_t key, keys;       // from which token, how many
    int64_t column;          // of the first key, among the columns
    int64_t start;           // of the node
    bool causal;

    // Whether nothing was yet added to its queries: a node comes after its descendants, and sees
    // itself from its first key on.
    bool first() const { return causal && key == start; }
    // Of the keys, how many were in a tile before: tiles on the diagonal see more and more.
    int64_t known() const { return causal ? std::min(keys, query - key) : keys; }
    // How many of the keys a query of the tile sees.
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
            // What stands before the first key does not see it.
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

// Products of a tile's rows with its keys' columns.
void scores_of(const Tile& tile, View rows, const Columns& columns, float* into) {
    const Panels b{&columns.turned[tile.column * columns.size], W, columns.size * W};
    product<false>({rows.of(tile.query), rows.row, 1}, b, into, kKeys, tile.queries, columns.size,
                   tile.width());
}

// Numbers of a row that are not seen: the weight of -inf is 0.
inline void hide(float* row, int64_t seen, int64_t width) {
    for (int64_t i = seen; i < width; ++i) row[i] = kNever;
}

inline float largest_of(const float* row, int64_t width) {
    Vec most = load(row);
    for (int64_t i = W; i < width; i += W) most = larger(load(row + i), most);
    return largest_lane(most)[0];
}

// C = A B where it is the first to be written there, else C += A B.
void put(bool first, Factor a, Panels b, float* c, int64_t ldc, int64_t rows, int64_t inner,
         int64_t width) {
    if (first)
        product<false>(a, b, c, ldc, rows, inner, width);
    else
        product<true>(a, b, c, ldc, rows, inner, width);
}

// Per token of a head: the largest score so far, and the sum of exponentials over it.
struct Sums {
    std::vector<float> top, total;
};

// One row of scores to weights; what was summed before is brought to the new largest score.
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
    bool alone;  // no head before it has written to dk and dv
    const float* lse;
    const float* along;       // of each token, the gradient times what it read
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

// Of each token of a head, the product of two rows.
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

// What is reused from call to call: fresh memory costs more than what is computed in it.
struct Work {
    Columns keys, values;
    Sums sums;
    std::vector<float> q, k, v, out, gradient, dq, dk, dv, along, tile;
};

Work& work() {
    static thread_local Work found[2];  // a signal handler may attend in the middle of it
    return found[in_handler()];
}

}  // namespace

// What every token attends to: `out` [tokens, heads, size] and `lse` [heads, tokens].
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

// Gradients of queries, keys and values from that of `out`.
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
