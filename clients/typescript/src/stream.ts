// Server-sent events over fetch, which can send an Authorization header.

/** One server-sent event. */
export interface StreamEvent {
  id: string;
  event: string;
  data: string;
}

/** The server sends something at least every 15 seconds; a longer silence means a broken connection. */
const longestSilence = 45_000;

/** Reads server-sent events. An event that is cut off is dropped. */
export async function* readStream(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let id = "";
  let event = "";
  let data: string[] = [];
  try {
    for (;;) {
      const watchdog = setTimeout(() => void reader.cancel().catch(() => undefined), longestSilence);
      const { done, value } = await reader.read().finally(() => clearTimeout(watchdog));
      rest += decoder.decode(value, { stream: !done });
      // A carriage return at the end can be half of a line ending.
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) yield { id, event: event || "message", data: data.join("\n") };
          event = "";
          data = [];
          continue;
        }
        const colon = line.indexOf(":");
        const name = colon < 0 ? line : line.slice(0, colon);
        const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (name === "id") id = text;
        else if (name === "event") event = text;
        else if (name === "data") data.push(text);
      }
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
