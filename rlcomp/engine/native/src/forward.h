// The forward pass of a causal transformer over tokens of several sequences.
#pragma once

#include <vector>

#include "attention.h"

namespace rlcomp {

class Forward {
  public:
    explicit Forward(const Model& model) : model_(model), shape_(model), attention_(model) {}

    // Reads tokens: writes their keys and values, and the last states of those wanted. Pages are
    // reserved; those of a sequence stand side by side, in the order of their places.
    void read(std::vector<Entry> entries);

  private:
    void some(std::vector<Entry> entries);
    void embed(const std::vector<Entry>& entries);
    void project(const Layer& layer, const std::vector<Entry>& entries);
    void keep(int64_t number, const std::vector<Entry>& entries);
    void keep_wanted(std::vector<Entry>& entries);
    void finish(const Layer& layer, int64_t rows);

    const Model& model_;
    PageShape shape_;
    Attention attention_;
    std::vector<float> x_, y_, q_, k_, v_, attended_, gate_, up_;
};

// Of the last states [n, hidden] of tokens, the logits of the next ones, [n, V].
void logits(const Model& model, const float* states, int64_t rows, float* into);

}  // namespace rlcomp
