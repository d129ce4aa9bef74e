"""Stands in for a model on loopback: answers Anthropic's Messages and OpenAI's Responses requests with scripted tool calls.

    python mock_model.py PORT SEEN SCRIPT

SCRIPT is JSON, a list of {"tool": …, "input": {…}, "namespace": …}; once all were called it says "done". SEEN gets one
line of JSON for each tool result that the client sent back: what the model would have read.
"""

from __future__ import annotations

import http.server
import json
import sys
from pathlib import Path
from typing import Any

SCRIPT = json.loads(sys.argv[3])
SEEN = Path(sys.argv[2])


class Model(http.server.BaseHTTPRequestHandler):
    """One scripted model; it knows how far it is by counting the results in the request."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer({})

    def do_GET(self) -> None:
        self._answer({"data": [], "models": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if "count_tokens" in self.path:
            self._answer({"input_tokens": 100})
        elif "/messages" in self.path:
            self._messages(body)
        elif "/responses" in self.path:
            self._responses(body)
        else:
            self._answer({})

    def _messages(self, body: dict[str, Any]) -> None:
        results = [block for message in body.get("messages", []) if isinstance(message["content"], list)
                   for block in message["content"] if block.get("type") == "tool_result"]
        _see([block["content"] for block in results])
        if body.get("tools") and len(results) < len(SCRIPT):
            step = SCRIPT[len(results)]
            block = {"type": "tool_use", "id": f"toolu_{len(results):04d}", "name": step["tool"], "input": {}}
            delta, stop = {"type": "input_json_delta", "partial_json": json.dumps(step["input"])}, "tool_use"
        else:
            block, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}, "end_turn"
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"), "content": [],
                   "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        if body.get("stream"):
            self._stream(events)
            return
        whole = {**block, "input": json.loads(delta["partial_json"])} if stop == "tool_use" else {"type": "text", "text": "done"}
        self._answer({**message, "content": [whole], "stop_reason": stop})

    def _responses(self, body: dict[str, Any]) -> None:
        results = [item for item in body.get("input", []) if item.get("type") == "function_call_output"]
        _see([item["output"] for item in results])
        if len(results) < len(SCRIPT):
            step = SCRIPT[len(results)]
            item = {"type": "function_call", "id": f"fc_{len(results)}", "call_id": f"call_{len(results)}",
                    "name": step["tool"], "arguments": json.dumps(step["input"])}
            item |= {"namespace": step["namespace"]} if step.get("namespace") else {}
        else:
            item = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
        usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None,
                 "total_tokens": 2}
        self._stream([
            {"type": "response.created", "response": {"id": "r1"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "r1", "usage": usage}},
        ])

    def _stream(self, events: list[dict[str, Any]]) -> None:
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self._send(text.encode(), "text/event-stream")

    def _answer(self, content: dict[str, Any]) -> None:
        self._send(json.dumps(content).encode(), "application/json")

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _see(results: list[Any]) -> None:
    with open(SEEN, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(each) + "\n" for each in results)


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Model).serve_forever()
