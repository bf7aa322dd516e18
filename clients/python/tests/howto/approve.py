import json

import askance

with askance.Client() as client:
    for call in client.requests(tool="refund"):
        if json.loads(call["input"])["cents"] < 150:
            client.respond(call, "approve")
        else:
            client.respond(call, "reject", feedback="Ask for the receipt.")
        print(call["tool_call_id"], call["input"])
