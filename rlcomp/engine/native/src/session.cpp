#include "session.h"

#include <algorithm>
#include <numeric>

#include "api.h"
#include "signals.h"

namespace rlcomp {

// Maximum number of logits that are computed at a time (at least 16 rows).
constexpr int64_t kLogits = 1 << 21;

namespace {

// Reserves pages for more tokens of a sequence, and adds the tokens to `entries`. Only the last
// token needs its last state.
void append(Pool& pool, Sequence& sequence, const int64_t* tokens, int64_t count,
            std::vector<Entry>& entries) {
    sequence.reserve(pool, count);
    for (int64_t n = 0; n < count; ++n)
        entries.push_back({&sequence, tokens[n], sequence.length++, n + 1 == count});
}

}  // namespace

void Session::open(const int64_t* tokens, const int64_t* lengths, int64_t prompts,
                   const int64_t* owners, int64_t rows) {
    std::vector<std::shared_ptr<Sequence>> shared;
    std::vector<Entry> entries;
    for (int64_t n = 0; n < prompts; tokens += lengths[n++]) {
        shared.push_back(std::make_shared<Sequence>());
        append(pool_, *shared.back(), tokens, lengths[n], entries);
    }
    forward_.read(std::move(entries));
    for (int64_t n = 0; n < rows; ++n) {
        rows_.push_back(std::make_unique<Sequence>());
        rows_.back()->parent = shared[owners[n]];
    }
}

void Session::read(const int64_t* rows, int64_t count, const int64_t* tokens,
                   const int64_t* counts) {
    std::vector<Entry> entries;
    for (int64_t n = 0; n < count; tokens += counts[n++])
        append(pool_, *rows_[rows[n]], tokens, counts[n], entries);
    forward_.read(std::move(entries));
}

void Session::logits(const int64_t* rows, int64_t count, float* into) const {
    for (int64_t n = 0; n < count; ++n)
        rlcomp::logits(model_, rows_[rows[n]]->behind(), 1, into + n * model_.head.out);
}

int64_t Session::fork(int64_t row) {
    rows_.push_back(std::make_unique<Sequence>(*rows_[row]));
    return static_cast<int64_t>(rows_.size()) - 1;
}

void Session::generate(const Turn& turn) {
    std::vector<int64_t> active(turn.count);
    std::iota(active.begin(), active.end(), 0);
    const auto sequence = [&](int64_t n) { return rows_[turn.rows[n]].get(); };
    // Rows of the same prompt become neighbours: neighbours read its keys together.
    std::stable_sort(active.begin(), active.end(), [&](int64_t a, int64_t b) {
        return sequence(a)->parent < sequence(b)->parent;
    });
    for (const int64_t n : active) {
        turn.lengths[n] = turn.ended[n] = 0;
        if (!turn.goes_on) sequence(n)->tail.clear();
    }
    const Stops stops(turn.stops, turn.num_stops, turn.texts, turn.table);
    Draw draw(model_.head.out, turn.temperature, turn.suppressed, turn.num_suppressed);
    for (int64_t step = 0;; ++step) {
        draw_into(turn, step, active, draw);
        const auto over = [&](int64_t n) {
            turn.ended[n] = stops.ends(turn.tokens[n * turn.steps + step], sequence(n)->tail);
            turn.lengths[n] = step + 1;
            const bool last = turn.ended[n] || turn.lengths[n] == turn.limits[n];
            if (last && turn.closes) close(turn.rows[n]);
            return last;
        };
        active.erase(std::remove_if(active.begin(), active.end(), over), active.end());
        if (active.empty() || step + 1 == turn.steps) return;
        std::vector<Entry> entries;
        for (const int64_t n : active)
            append(pool_, *sequence(n), turn.tokens + n * turn.steps + step, 1, entries);
        forward_.read(std::move(entries));
    }
}

void Session::draw_into(const Turn& turn, int64_t step, const std::vector<int64_t>& active,
                        Draw& draw) {
    const int64_t hidden = model_.hidden, vocabulary = model_.head.out;
    const int64_t all = static_cast<int64_t>(active.size());
    const int64_t most = std::max<int64_t>(16, kLogits / vocabulary);
    for (int64_t at = 0; at < all; at += most) {
        check_signals();
        const int64_t some = std::min(most, all - at);
        states_.resize(some * hidden);
        logits_.resize(some * vocabulary);
        for (int64_t n = 0; n < some; ++n)
            std::copy_n(rows_[turn.rows[active[at + n]]]->behind(), hidden, &states_[n * hidden]);
        rlcomp::logits(model_, states_.data(), some, logits_.data());
        for (int64_t n = 0; n < some; ++n) {
            const int64_t row = active[at + n];
            const Drawn drawn = draw(&logits_[n * vocabulary], turn.uniform[step * turn.count + row]);
            turn.tokens[row * turn.steps + step] = drawn.token;
            turn.log_probs[row * turn.steps + step] = drawn.log_prob;
        }
    }
}

namespace {

// Returns the result of guarded(); or 3, without a call, if an earlier call ended early.
template <class Call>
int in(Session* session, Call call) {
    if (session->broken) return 3;
    const int result = guarded(call);
    session->broken = result != 0;
    return result;
}

}  // namespace
}  // namespace rlcomp

using rlcomp::Session;

RLCOMP_API int rlcomp_session(const rlcomp::Model* model, Session** into) {
    return rlcomp::guarded([&] { *into = new Session(*model); });
}

RLCOMP_API void rlcomp_free(Session* session) { delete session; }

RLCOMP_API int rlcomp_open(Session* session, const int64_t* tokens, const int64_t* lengths,
                           int64_t prompts, const int64_t* owners, int64_t rows) {
    return rlcomp::in(session, [&] { session->open(tokens, lengths, prompts, owners, rows); });
}

RLCOMP_API int rlcomp_read(Session* session, const int64_t* rows, int64_t count,
                           const int64_t* tokens, const int64_t* counts) {
    return rlcomp::in(session, [&] { session->read(rows, count, tokens, counts); });
}

RLCOMP_API int rlcomp_logits(Session* session, const int64_t* rows, int64_t count, float* into) {
    return rlcomp::in(session, [&] { session->logits(rows, count, into); });
}

RLCOMP_API int rlcomp_generate(Session* session, const rlcomp::Turn* turn) {
    return rlcomp::in(session, [&] { session->generate(*turn); });
}

RLCOMP_API int rlcomp_fork(Session* session, int64_t row, int64_t* into) {
    return rlcomp::in(session, [&] { *into = session->fork(row); });
}

RLCOMP_API void rlcomp_close(Session* session, int64_t row) { session->close(row); }

// Samples rows that answer prompts until all have ended, in a session of its own.
RLCOMP_API int rlcomp_rollout(const rlcomp::Model* model, const int64_t* tokens,
                              const int64_t* lengths, int64_t prompts, const int64_t* owners,
                              const rlcomp::Turn* turn) {
    return rlcomp::guarded([&] {
        Session session(*model);
        session.open(tokens, lengths, prompts, owners, turn->count);
        session.generate(*turn);
    });
}
