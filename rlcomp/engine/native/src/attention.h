// Attention of single tokens to pages of keys and values.
#pragma once

#include <vector>

#include "sequence.h"

namespace rlcomp {

// A token to compute: its index among the own tokens of its sequence (`place`), and whether its
// last state is needed (`wanted`).
struct Entry {
    Sequence* sequence;
    int64_t token, place;
    bool wanted;

    int64_t position() const { return sequence->before() + place; }
};

// Softmax attention of each token to the tokens of its sequence up to itself. Neighbours with the
// same parent read its keys together; the result of a token does not depend on its neighbours.
class Attention {
  public:
    explicit Attention(const Model& model) : model_(model), shape_(model) {}

    // Computes attention of queries `q` [N, heads * head_size] of entries, whose keys and values
    // are in the pages, into `out` [N, heads * head_size].
    void attend(int64_t layer, const std::vector<Entry>& entries, const float* q, float* out);

  private:
    struct Query {
        const Entry* entry;
        const float* q;
        float* out;
    };
    void tile(int64_t layer, int64_t head, const Query* queries, int64_t count);

    const Model& model_;
    PageShape shape_;
    std::vector<Query> queries_;
    std::vector<float> asked_, scores_, read_;
};

}  // namespace rlcomp
