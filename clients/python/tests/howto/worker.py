import os
import signal

import askance

client = askance.Client()


@client.tool
def ship(order: str) -> str:
    """Send an order."""
    return f"shipped {order} with {askance.current_task().idempotency_key[:3]}"


worker = client.worker([ship], engine_keys=os.environ["ENGINE_KEY"], slots=4)
signal.signal(signal.SIGTERM, lambda *_: worker.stop())
worker.run()
