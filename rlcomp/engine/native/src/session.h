// Rows that are read on and sampled in turn: the decode loop.
#pragma once

#include <memory>
#include <vector>

#include "draw.h"
#include "forward.h"
#include "stopping.h"

namespace rlcomp {

// Some steps of some rows. Part of the ABI.
struct Turn {
    int64_t count, steps;
    const int64_t* rows;    // [count]
    const int64_t* limits;  // [count], tokens of each row, at least 1; may be more than steps
    const double* uniform;  // [steps, count], in [0, 1)
    double temperature;
    const int64_t* suppressed;
    int64_t num_suppressed;
    const int64_t* stops;
    int64_t num_stops;
    Texts texts, table;
    int64_t goes_on;  // the turn began in an earlier call
    int64_t closes;   // rows that are over are freed
    // Written: [count, steps] each, then [count] each.
    int64_t* tokens;
    float* log_probs;
    int64_t* lengths;
    uint8_t* ended;  // by a stop, not by its limit
};

class Session {
  public:
    explicit Session(const Model& model)
        : model_(model), pool_(PageShape(model).floats), forward_(model_) {}

    // Adds rows behind prompts, the one behind the other in `tokens`; `owners` [rows] names them.
    void open(const int64_t* tokens, const int64_t* lengths, int64_t prompts,
              const int64_t* owners, int64_t rows);
    // Reads tokens behind rows: `counts` of each, one behind the other in `tokens`.
    void read(const int64_t* rows, int64_t count, const int64_t* tokens, const int64_t* counts);
    void logits(const int64_t* rows, int64_t count, float* into) const;
    // Samples. The last token of each row is not read yet.
    void generate(const Turn& turn);
    int64_t fork(int64_t row);
    void close(int64_t row) { rows_[row].reset(); }

    bool broken = false;  // a call was left in the middle: what is read is not known

  private:
    void draw_into(const Turn& turn, int64_t step, const std::vector<int64_t>& active, Draw& draw);

    Model model_;
    Pool pool_;  // before what holds its pages
    Forward forward_;
    std::vector<std::unique_ptr<Sequence>> rows_;
    std::vector<float> states_, logits_;
};

}  // namespace rlcomp
