// Description of a causal transformer: sizes, and pointers to the weights of the model itself.
// These structs are the ABI; library.py repeats them. The pointer of an absent part is null.
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
    const float* bias;    // [size]; only a LayerNorm has one
    double eps;
    int64_t centred;  // 1: LayerNorm, 0: root-mean-square norm
};

struct Layer {
    Norm before_attention, before_feed;
    Norm of_queries, of_keys;  // norms of each head
    Linear q, k, v, out;
    Linear gate, up, down;  // without a gate, the activation is applied to the output of `up`
};

enum Activation : int64_t { kSilu = 0, kGeluTanh = 1 };

struct Model {
    int64_t layers, hidden, heads, kv_heads, head_size, inner;
    int64_t activation;
    double scale;                     // factor of the attention logits
    const float* embedding;           // [V, hidden]
    const float* position_embedding;  // [positions, hidden]
    const float* cosine;              // [positions, head_size / 2]
    const float* sine;                // like `cosine`; both null without rotary positions
    const Layer* layer;
    Norm norm;
    Linear head;
};

}  // namespace rlcomp
