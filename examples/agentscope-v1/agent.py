"""An agent of AgentScope 1.x whose tool calls askance decides.

It needs nothing but Python. With AgentScope 1.x installed it uses its Msg.
"""

import json
import sys
import urllib.error
import urllib.request

try:
    from agentscope.message import Msg  # pip install "agentscope<2"
except ImportError:

    class Msg:
        """As much of agentscope.message.Msg as this program uses."""

        def __init__(self, name, content, role, metadata=None):
            self.name, self.content, self.role, self.metadata = name, content, role, metadata or {}

        def to_dict(self):
            return dict(name=self.name, content=self.content, role=self.role, metadata=self.metadata)

        @classmethod
        def from_dict(cls, data):
            return cls(data["name"], data["content"], data["role"], data.get("metadata"))


TYPE = "application/vnd.agentscope.v1+json"  # the messages are those of AgentScope 1.x


def ask(url, msgs=None):
    """Sends messages, or none, and returns the calls as messages."""
    body = msgs and json.dumps({"messages": [m.to_dict() for m in msgs]}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": TYPE, "Accept": TYPE})
    try:
        with urllib.request.urlopen(request) as answer:
            reply = json.load(answer)
    except urllib.error.HTTPError as e:
        sys.exit(f"askance refuses {url}: {e}: {e.read().decode()}")
    except urllib.error.URLError as e:
        sys.exit(f"cannot reach {url}: {e.reason}. Start askance serve as README.md says.")
    return [Msg.from_dict(m) for m in reply["messages"]], reply["done"]


def main(base):
    reply = base + "/v1/sessions/shop-1x/replies/reply-1"
    # What the model said. A ReActAgent has it from its model.
    turn = Msg("Friday", [{"type": "tool_use", "id": "refund-1x", "name": "refund", "input": {"order": "A-1042", "cents": 19900}}], "assistant")
    msgs, done = ask(reply + "/calls", [turn])
    for call in msgs[0].metadata.get("askance", {}).get("calls", []):
        print(call["tool_use_id"], "is", call["state"], flush=True)
    while not done:
        msgs, done = ask(reply + "/wait")  # up to 30 seconds
    for block in msgs[1].content:  # the message that goes into the agent's memory
        print(block["id"], "gave", block["output"], flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8787")
