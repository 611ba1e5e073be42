// Declaration of the functions that Python calls by ctypes: plain C, exported.
#pragma once

#define RLCOMP_API extern "C" __attribute__((visibility("default")))
