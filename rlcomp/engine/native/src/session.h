// A session: rows that alternately read tokens and sample them by the decode loop.
#pragma once

#include <memory>
#include <vector>

#include "draw.h"
#include "forward.h"
#include "stopping.h"

namespace rlcomp {

// Request for decode steps of some rows, and buffers for the results. Part of the ABI: TurnStruct
// of library.py.
struct Turn {
    int64_t count, steps;
    const int64_t* rows;    // [count]
    const int64_t* limits;  // [count], maximum tokens of each row, at least 1; may exceed `steps`
    const double* uniform;  // [steps, count], in [0, 1)
    double temperature;
    const int64_t* suppressed;  // tokens that are never drawn
    int64_t num_suppressed;
    const int64_t* stops;
    int64_t num_stops;
    Texts texts, table;
    int64_t goes_on;  // whether the turn began in an earlier call
    int64_t closes;   // whether rows that have ended are freed
    // Results: `tokens` and `log_probs` [count, steps], `lengths` and `ended` [count].
    int64_t* tokens;
    float* log_probs;
    int64_t* lengths;
    uint8_t* ended;  // 1 if a stop ended the row, 0 if its limit did
};

class Session {
  public:
    explicit Session(const Model& model)
        : model_(model), pool_(PageShape(model).floats), forward_(model_) {}

    // Computes prompts, whose tokens are concatenated in `tokens`, and adds rows that begin with
    // them; `owners` [rows] are the indices of their prompts.
    void open(const int64_t* tokens, const int64_t* lengths, int64_t prompts,
              const int64_t* owners, int64_t rows);
    // Appends `counts[n]` tokens to row `rows[n]`; the tokens are concatenated in `tokens`.
    void read(const int64_t* rows, int64_t count, const int64_t* tokens, const int64_t* counts);
    void logits(const int64_t* rows, int64_t count, float* into) const;
    // Samples tokens. The last token of each row does not enter the KV cache.
    void generate(const Turn& turn);
    int64_t fork(int64_t row);
    void close(int64_t row) { rows_[row].reset(); }

    bool broken = false;  // a call ended early: the state of the cache is unknown

  private:
    void draw_into(const Turn& turn, int64_t step, const std::vector<int64_t>& active, Draw& draw);

    Model model_;
    Pool pool_;  // declared before the rows that hold its pages: it is destroyed after them
    Forward forward_;
    std::vector<std::unique_ptr<Sequence>> rows_;
    std::vector<float> states_, logits_;
};

}  // namespace rlcomp
