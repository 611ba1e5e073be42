// Random models, prompts and turns through the library, against a plain pass in double precision.
// Built with sanitizers by test_sanitizers.py: `fuzz ROUNDS [SEED]` prints how many it did.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "session.h"

using namespace rlcomp;

static std::mt19937 randomness;

static int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(randomness);
}

static void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "failed: %s\n", what);
    std::exit(1);
}

using Numbers = std::vector<double>;

// A model with random weights, in memory that ends where the last number does.
struct Made {
    std::vector<std::unique_ptr<std::vector<float>>> held;
    std::vector<Layer> layers;
    Model m{};

    const float* some(int64_t count, double scale, double around = 0.0) {
        std::normal_distribution<double> normal(around, scale);
        held.push_back(std::make_unique<std::vector<float>>(count));
        for (float& x : *held.back()) x = static_cast<float>(normal(randomness));
        return held.back()->data();
    }
    Linear linear(int64_t out, int64_t in, bool bias) {
        return {some(out * in, 1.0 / std::sqrt(in)), bias ? some(out, 0.3) : nullptr, out, in};
    }
    Norm norm(int64_t size, bool centred) {
        return {some(size, 0.3, 1.0), centred ? some(size, 0.3) : nullptr, 1e-5, centred};
    }

    Made() {
        const bool gpt = number(0, 2) == 0, bias = gpt || number(0, 1);
        m.kv_heads = number(1, 3), m.heads = m.kv_heads * number(1, gpt ? 1 : 3);
        m.head_size = 2 * number(1, 20), m.hidden = number(1, 70), m.inner = number(1, 1100);
        m.layers = number(1, 3), m.activation = gpt ? kGeluTanh : kSilu;
        m.scale = 1.0 / std::sqrt(m.head_size);
        const int64_t vocabulary = number(2, 600), positions = 200, half = m.head_size / 2;
        m.embedding = some(vocabulary * m.hidden, 1.0);
        if (gpt) {
            m.position_embedding = some(positions * m.hidden, 1.0);
        } else {
            held.push_back(std::make_unique<std::vector<float>>());
            held.push_back(std::make_unique<std::vector<float>>());
            auto &cosines = *held[held.size() - 2], &sines = *held.back();
            for (int64_t p = 0; p < positions; ++p)
                for (int64_t i = 0; i < half; ++i) {
                    cosines.push_back(std::cos(p / (1.0 + i))), sines.push_back(std::sin(p / (1.0 + i)));
                }
            m.cosine = cosines.data(), m.sine = sines.data();
        }
        const int64_t q = m.heads * m.head_size, kv = m.kv_heads * m.head_size;
        const bool head_norms = !gpt && number(0, 1);
        for (int64_t n = 0; n < m.layers; ++n) {
            Layer layer{};
            layer.before_attention = norm(m.hidden, gpt), layer.before_feed = norm(m.hidden, gpt);
            if (head_norms) {
                layer.of_queries = norm(m.head_size, false);
                layer.of_keys = norm(m.head_size, false);
            }
            layer.q = linear(q, m.hidden, bias), layer.k = linear(kv, m.hidden, bias);
            layer.v = linear(kv, m.hidden, bias), layer.out = linear(m.hidden, q, bias);
            if (!gpt) layer.gate = linear(m.inner, m.hidden, bias);
            layer.up = linear(m.inner, m.hidden, bias);
            layer.down = linear(m.hidden, m.inner, bias);
            layers.push_back(layer);
        }
        m.layer = layers.data();
        m.norm = norm(m.hidden, gpt), m.head = linear(vocabulary, m.hidden, gpt);
    }
};

static Numbers times(const Linear& by, const Numbers& x) {
    Numbers y(by.out);
    for (int64_t o = 0; o < by.out; ++o) {
        y[o] = by.bias ? by.bias[o] : 0.0;
        for (int64_t i = 0; i < by.in; ++i) y[o] += by.weight[o * by.in + i] * x[i];
    }
    return y;
}

static Numbers normed(const Norm& norm, const double* x, int64_t size) {
    double mean = 0, square = 0;
    if (norm.centred)
        for (int64_t i = 0; i < size; ++i) mean += x[i] / size;
    for (int64_t i = 0; i < size; ++i) square += (x[i] - mean) * (x[i] - mean) / size;
    Numbers y(size);
    for (int64_t i = 0; i < size; ++i) {
        y[i] = (x[i] - mean) / std::sqrt(square + norm.eps) * norm.weight[i];
        if (norm.bias) y[i] += norm.bias[i];
    }
    return y;
}

static void turn(const Model& m, const Norm& norm, int64_t position, Numbers& joined) {
    const int64_t size = m.head_size, half = size / 2;
    for (int64_t h = 0; h < static_cast<int64_t>(joined.size()) / size; ++h) {
        Numbers x(joined.begin() + h * size, joined.begin() + (h + 1) * size);
        if (norm.weight) x = normed(norm, x.data(), size);
        for (int64_t i = 0; i < half && m.cosine; ++i) {
            const double c = m.cosine[position * half + i], s = m.sine[position * half + i];
            const double a = x[i], b = x[i + half];
            x[i] = a * c - b * s, x[i + half] = b * c + a * s;
        }
        std::copy(x.begin(), x.end(), joined.begin() + h * size);
    }
}

// The logits behind a row of tokens.
static Numbers plain(const Model& m, const std::vector<int64_t>& tokens) {
    std::vector<std::vector<Numbers>> keys(m.layers), values(m.layers);
    Numbers x(m.hidden);
    for (size_t t = 0; t < tokens.size(); ++t) {
        for (int64_t i = 0; i < m.hidden; ++i) {
            x[i] = m.embedding[tokens[t] * m.hidden + i];
            if (m.position_embedding) x[i] += m.position_embedding[t * m.hidden + i];
        }
        for (int64_t n = 0; n < m.layers; ++n) {
            const Layer& layer = m.layer[n];
            Numbers y = normed(layer.before_attention, x.data(), m.hidden);
            Numbers q = times(layer.q, y), k = times(layer.k, y), read(q.size());
            turn(m, layer.of_queries, t, q), turn(m, layer.of_keys, t, k);
            keys[n].push_back(k), values[n].push_back(times(layer.v, y));
            for (int64_t h = 0; h < m.heads; ++h) {
                const int64_t own = h * m.head_size, shared = h / (m.heads / m.kv_heads) * m.head_size;
                Numbers weights;
                double total = 0;
                for (size_t s = 0; s <= t; ++s) {
                    double score = 0;
                    for (int64_t d = 0; d < m.head_size; ++d) score += q[own + d] * keys[n][s][shared + d];
                    weights.push_back(std::exp(score * m.scale));
                    total += weights.back();
                }
                for (size_t s = 0; s <= t; ++s)
                    for (int64_t d = 0; d < m.head_size; ++d)
                        read[own + d] += weights[s] / total * values[n][s][shared + d];
            }
            Numbers out = times(layer.out, read);
            for (int64_t i = 0; i < m.hidden; ++i) x[i] += out[i];
            y = normed(layer.before_feed, x.data(), m.hidden);
            Numbers up = times(layer.up, y), gate = layer.gate.weight ? times(layer.gate, y) : up;
            for (int64_t i = 0; i < m.inner; ++i) {
                const double g = gate[i];
                const double tanh = std::tanh(0.7978845608 * (g + 0.044715 * g * g * g));
                up[i] = layer.gate.weight ? up[i] * g / (1 + std::exp(-g)) : 0.5 * g * (1 + tanh);
            }
            out = times(layer.down, up);
            for (int64_t i = 0; i < m.hidden; ++i) x[i] += out[i];
        }
    }
    return times(m.head, normed(m.norm, x.data(), m.hidden));
}

// The logits behind rows are those of the plain pass over what they hold.
static void check(const Session& session, const Model& m, const std::vector<int64_t>& rows,
                  const std::vector<std::vector<int64_t>>& contexts) {
    const int64_t vocabulary = m.head.out;
    std::vector<float> found(rows.size() * vocabulary);
    session.logits(rows.data(), rows.size(), found.data());
    for (size_t n = 0; n < rows.size(); ++n) {
        const Numbers expected = plain(m, contexts[rows[n]]);
        for (int64_t v = 0; v < vocabulary; ++v)
            require(std::abs(found[n * vocabulary + v] - expected[v]) < 2e-4, "logits");
    }
}

static void round_() {
    const Made made;
    const Model& m = made.m;
    const int64_t vocabulary = m.head.out, prompts = number(1, 4), first = number(1, 9);
    std::vector<std::vector<int64_t>> texts(prompts), contexts(first);
    std::vector<int64_t> joined, lengths, owners;
    for (auto& text : texts) {
        text.resize(number(0, 2) ? number(1, 40) : 1);
        for (int64_t& token : text) joined.push_back(token = number(0, vocabulary - 1));
        lengths.push_back(text.size());
    }
    for (auto& context : contexts) {
        owners.push_back(number(0, prompts - 1));
        context = texts[owners.back()];
    }
    Session session(m);
    session.open(joined.data(), lengths.data(), prompts, owners.data(), first);
    for (int64_t turns = 0; turns < 3; ++turns) {
        if (number(0, 1)) {
            const int64_t row = number(0, contexts.size() - 1);
            contexts.push_back(contexts[row]);
            require(session.fork(row) + 1 == static_cast<int64_t>(contexts.size()), "fork");
        }
        std::vector<int64_t> rows, limits, stops, suppressed;
        for (size_t n = 0; n < contexts.size(); ++n)
            if (rows.empty() || number(0, 3)) rows.push_back(n), limits.push_back(number(1, 20));
        std::shuffle(rows.begin(), rows.end(), randomness);
        // None, some, or every token ends a row.
        const int64_t rate = number(0, 3);
        for (int64_t v = 0; v < vocabulary && rate; ++v)
            if (rate == 1 || number(0, 9) == 0) stops.push_back(v);
        if (number(0, 1)) suppressed.push_back(number(0, vocabulary - 1));
        const int64_t count = rows.size(), steps = number(1, 20);
        const std::string ends = "ab", table(vocabulary, 'a');
        std::string bytes = table;
        for (char& byte : bytes) byte = static_cast<char>('a' + number(0, 3));
        std::vector<int64_t> text_ends{static_cast<int64_t>(ends.size())}, table_ends;
        for (int64_t v = 0; v < vocabulary; ++v) table_ends.push_back(v + 1);
        std::vector<double> uniform(count * steps);
        for (double& u : uniform) u = std::generate_canonical<double, 53>(randomness);
        std::vector<int64_t> tokens(count * steps), taken(count);
        std::vector<float> log_probs(count * steps);
        std::vector<uint8_t> ended(count);
        Turn asked{count, steps, rows.data(), limits.data(), uniform.data(),
                   number(0, 2) ? 1.0 : number(0, 1) * 0.7, suppressed.data(),
                   static_cast<int64_t>(suppressed.size()), stops.data(),
                   static_cast<int64_t>(stops.size()), {ends.data(), text_ends.data(), number(0, 1)},
                   {bytes.data(), table_ends.data(), vocabulary}, 0, 0, tokens.data(),
                   log_probs.data(), taken.data(), ended.data()};
        session.generate(asked);
        std::vector<int64_t> read, counts;
        for (int64_t n = 0; n < count; ++n) {
            require(taken[n] >= 1 && taken[n] <= std::min(steps, limits[n]), "lengths");
            require(ended[n] || taken[n] == std::min(steps, limits[n]), "ended");
            for (int64_t s = 0; s < taken[n]; ++s) {
                const int64_t token = tokens[n * steps + s];
                require(token >= 0 && token < vocabulary, "tokens");
                require(suppressed.empty() || token != suppressed[0], "suppressed");
                require(log_probs[n * steps + s] <= 1e-6, "log-probs");
                contexts[rows[n]].push_back(token);
            }
            // The last one is read with what follows it.
            read.push_back(tokens[n * steps + taken[n] - 1]);
            counts.push_back(1 + number(0, 9));
            for (int64_t extra = 1; extra < counts.back(); ++extra) {
                read.push_back(number(0, vocabulary - 1));
                contexts[rows[n]].push_back(read.back());
            }
        }
        session.read(rows.data(), count, read.data(), counts.data());
        check(session, m, rows, contexts);
    }
}

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
    randomness.seed(argc > 2 ? std::atoi(argv[2]) : 0);
    for (int n = 0; n < rounds; ++n) round_();
    std::printf("%d rounds\n", rounds);
}
