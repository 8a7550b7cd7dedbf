"""Clients of OpenAI-compatible servers: a conversation, and load whose latencies are measured."""
