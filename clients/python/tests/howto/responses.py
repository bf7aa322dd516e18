import asyncio

from askance import Allowed, AsyncClient, Proposal


async def main() -> None:
    async with AsyncClient() as client:
        gate = client.gate("support-7", "turn-2", agent="support")
        proposals = [Proposal("refund", {"order": "A-1", "cents": cents}, f"call-{cents}") for cents in (100, 200)]
        async for outcome in gate.calls(proposals):
            if isinstance(outcome, Allowed):
                text = await outcome.run(lambda given: f"refunded {given['cents']}")
            else:
                text = outcome.text  # for the model
            print(outcome.call["tool_call_id"], text)


asyncio.run(main())
