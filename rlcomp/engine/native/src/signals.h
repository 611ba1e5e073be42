// Signals that arrive while the library computes.
#pragma once

#include <exception>

namespace rlcomp {

// A signal handler of the interpreter has raised an exception; rlcomp_raised returns it.
struct Interrupted : std::exception {};

// Lets the interpreter run the handlers of signals, a few times a second. Throws Interrupted.
void check_signals();

// Returns whether a signal handler is running; it may call the library again.
bool in_handler();

// Runs a call; returns 0, 2 if a signal interrupted it, 1 on any other exception (no memory).
template <class Call>
int guarded(Call call) {
    try {
        call();
        return 0;
    } catch (const Interrupted&) {
        return 2;
    } catch (const std::exception&) {
        return 1;
    }
}

}  // namespace rlcomp
