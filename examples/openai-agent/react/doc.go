// Package react is an agent around a model that speaks OpenAI's chat
// completions: it asks the model, hands the tool calls that the model wants to
// askance, gives the results back, and goes on until the model is done.
//
// All that it knows is the conversation, so a turn goes on in another process
// where it stopped. What the model says is streamed as it comes; calls that it
// makes at once run side by side.
//
// What can go wrong, and what becomes of it:
//
//   - 408, 409, 429, 5xx and broken connections before the answer: asked again,
//     after what Retry-After says; then the reply ends with an error;
//   - an error, a break or nonsense within the answer: the reply ends with an
//     error; what was said stays, calls of that answer are refused;
//   - finish_reason length or content_filter: likewise;
//   - arguments that are no JSON object: the model is told so, nothing runs;
//   - a refusal: it is the reply's text;
//   - the process ends between the model's last word and the end of the reply: the
//     model is asked once more, because nothing tells that it was the last.
package react
