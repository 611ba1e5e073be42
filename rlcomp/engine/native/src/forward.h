// The forward pass of a causal transformer over tokens of several sequences.
#pragma once

#include <vector>

#include "attention.h"

namespace rlcomp {

class Forward {
  public:
    explicit Forward(const Model& model) : model_(model), shape_(model), attention_(model) {}

    // Computes tokens: writes their keys and values into pages, which must be reserved, and the
    // last states of the entries with `wanted`. Tokens of a sequence are adjacent, in order.
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

// Computes the logits of the next tokens, [rows, V], from last states [rows, hidden].
void logits(const Model& model, const float* states, int64_t rows, float* into);

}  // namespace rlcomp
