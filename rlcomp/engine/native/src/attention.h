// Attention of single tokens to pages of keys and values.
#pragma once

#include <vector>

#include "sequence.h"

namespace rlcomp {

// A token that is read: its place among its sequence's own, and whether its last state is wanted.
struct Entry {
    Sequence* sequence;
    int64_t token, place;
    bool wanted;

    int64_t position() const { return sequence->before() + place; }
};

// Softmax attention of tokens to all that their sequences hold up to them. Neighbours with the
// same parent read its keys together; each one's numbers depend on it alone.
class Attention {
  public:
    explicit Attention(const Model& model) : model_(model), shape_(model) {}

    // q [N, heads * head_size] of entries whose keys are written; into `out`, of the same shape.
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
