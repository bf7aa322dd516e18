#!/usr/bin/env python3
# usage: worker.py URL TOKEN TOOL
import json, secrets, sys, threading, time, urllib.error, urllib.request

url, token, tool = sys.argv[1:4]

def run(arguments):  # the tool itself: it answers with its arguments
    return json.dumps(arguments)

def ask(op, body):  # None: refused, or there is nothing to do any more
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/work/{op}", json.dumps(body).encode(), headers), timeout=60) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as e:
            if e.code < 500 and e.code != 429:
                return None
        except OSError:
            pass
        time.sleep(1)

def work(task):
    call = task["record"]["call"]
    attempt = call["attempt"]
    own = {k: call[k] for k in ("session_id", "reply_id", "tool_call_id")} | {"attempt": attempt["number"], "claim": secrets.token_hex(16)}
    sent = time.monotonic(), time.time()  # one clock stops when the machine sleeps, the other can be set
    started = ask("start", own | {"request": secrets.token_hex(16), "grant_nonce": attempt["grant"]["nonce"]})
    ask("ack", {"tool_name": tool, "task": task["task"]})
    if started is None:
        return
    if max(time.monotonic() - sent[0], time.time() - sent[1]) * 1000 > 0.75 * started["lease_ms"]:
        ask("result", own | {"not_begun": "the start was answered too late"})
        return
    done = threading.Event()
    def beat():
        while not done.wait(started["heartbeat_ms"] / 1000):
            ask("heartbeat", own)
    threading.Thread(target=beat, daemon=True).start()
    try:
        output, state = run(json.loads(call["input"])), "success"
    except Exception as e:
        output, state = str(e), "error"
    ask("result", own | {"result": {"type": "tool_result", "id": call["tool_call_id"], "name": tool, "output": output, "state": state}})
    done.set()

while True:
    for task in (ask("next", {"tool_name": tool}) or time.sleep(5) or {"tasks": []})["tasks"]:
        work(task)
