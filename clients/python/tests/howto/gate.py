import askance

client = askance.Client()  # ASKANCE_URL and ASKANCE_TOKEN


@client.tool
def refund(order: str, cents: int) -> str:
    """Pay an order back."""
    return f"refunded {cents} cents of {order}"


gate = client.gate("support-7", "turn-1", tools=[refund])  # the conversation, the model's response
result = gate.run(refund, '{"order": "A-1", "cents": 500}', id="call-1")  # what the model sent
print(result.state, result.text)
