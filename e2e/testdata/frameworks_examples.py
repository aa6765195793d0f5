"""Runs the Python examples of docs/how-to/frameworks.md with frameworks that accept everything. Prints how many."""

import re
import sys
import unittest.mock

for name in ("google", "google.adk", "google.adk.runners", "google.adk.plugins", "google.adk.plugins.base_plugin", "langgraph",
             "langgraph.prebuilt", "langchain_core", "langchain_core.messages", "crewai", "crewai.hooks", "agents", "claude_agent_sdk"):
    sys.modules[name] = unittest.mock.MagicMock()
sys.modules["google.adk.plugins.base_plugin"].BasePlugin = type("BasePlugin", (), {"__init__": lambda self, name: None})


class Agent:
    def __init__(self, name, tools, handoffs=()):
        self.name, self.tools, self.handoffs = name, tools, list(handoffs)


sys.modules["agents"].Agent = Agent
blocks = re.findall(r"```python\n(.*?)```", open(sys.argv[1], encoding="utf-8").read(), re.S)
for block in blocks:
    exec(compile(block, "example", "exec"), {
        name: unittest.mock.MagicMock() for name in ("root_agent", "read_file", "transfer_to_refunds")
    } | {"token": "TOKEN"})
print(len(blocks))
