// What the library lets others call: plain C, through ctypes.
#pragma once

#define RLCOMP_API extern "C" __attribute__((visibility("default")))
