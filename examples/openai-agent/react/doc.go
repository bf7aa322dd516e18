// Package react is an agent for models with OpenAI's chat completions API. It asks the
// model, passes the tool calls that the model wants to askance, returns the results to
// the model, and continues until the model is done.
//
// Its only state is the conversation, so another process can continue a turn that was
// interrupted. The model's answer is streamed as it arrives, and calls that the model
// makes at the same time run in parallel.
//
// These faults are handled:
//
//   - 408, 409, 429, 5xx and broken connections before the answer: the request is
//     sent again, after the time in Retry-After; after the last try the reply fails;
//   - an error, a broken connection or invalid data within the answer: the reply
//     ends with an error; its text is kept, and the calls of that answer are refused;
//   - finish_reason length or content_filter: the same;
//   - arguments that are not a JSON object: the model is told, and nothing runs;
//   - a refusal: it becomes the text of the reply;
//   - the process ends between the end of the answer and the end of the reply: the
//     model is asked once more, because nothing shows that the answer was the last.
package react
