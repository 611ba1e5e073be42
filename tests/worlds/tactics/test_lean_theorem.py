from components.worlds.tactics.lean_theorem import write_lean_theorem


def test_a_script_is_named_as_the_game_names_it():
    script = ["intro", "have p∨q", "left", "exact h0", "cases h1", "exact h1", "cases h0", "left"]
    assert write_lean_theorem("t", "p→p", script).split("\n  ")[1:] == [
        "intro h0",
        "refine have h1 : p∨q := ?_; ?_",
        "left",
        "exact h0",
        "rcases h1 with h1 | h1",
        "exact h1",
        # From here on the game has refused: it goes on as written.
        "cases h0",
        "left",
    ]
