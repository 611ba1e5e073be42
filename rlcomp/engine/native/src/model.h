// A causal transformer as the caller describes it: sizes, and pointers to the model's own weights.
// These structs are the ABI; library.py repeats them. Absent parts are null.
#pragma once

#include <cstdint>

namespace rlcomp {

struct Linear {
    const float* weight;  // [out, in]
    const float* bias;    // [out]
    int64_t out, in;
};

struct Norm {
    const float* weight;  // [size]
    const float* bias;    // [size]; of a LayerNorm only
    double eps;
    int64_t centred;  // LayerNorm; else root mean square
};

struct Layer {
    Norm before_attention, before_feed;
    Norm of_queries, of_keys;  // head by head
    Linear q, k, v, out;
    Linear gate, up, down;  // without a gate the activation is that of `up`
};

enum Activation : int64_t { kSilu = 0, kGeluTanh = 1 };

struct Model {
    int64_t layers, hidden, heads, kv_heads, head_size, inner;
    int64_t activation;
    double scale;                     // of the attention logits
    const float* embedding;           // [V, hidden]
    const float* position_embedding;  // [positions, hidden]
    const float* cosine;              // [positions, head_size / 2]
    const float* sine;
    const Layer* layer;
    Norm norm;
    Linear head;
};

}  // namespace rlcomp
