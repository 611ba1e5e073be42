"""OpenAI-compatible endpoint on loopback: outside agents call the policy, and are recorded."""
