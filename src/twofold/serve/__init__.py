"""The running service: an HTTP process that speaks OpenAI's API, and worker processes that run the engine.

A request is read, checked and turned into tokens in the HTTP process (``app``, ``chat``, ``completions``), admitted
(``admission``), handed to a worker over ZeroMQ (``link``, ``protocol``, ``worker``), and its tokens come back the same
way and leave as text (``generation``). Nothing here imports torch but ``worker``, which is a process of its own.
"""
