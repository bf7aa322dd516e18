// Package audit reads journals for auditors: a live one, one in a folder, or one
// that was exported to a file; and it writes exports.
//
// A [Source] gives stored records and checkpoints in their order. [Source.Verify]
// holds one against the other, whatever the source. [Export] writes a source as
// JSON Lines, which are a source again ([OpenFile]), or as CSV for people:
//
//	{"type":"export","v":1,"space":"default","first_seq":1,"last_seq":42}
//	{"type":"record","record":{"seq":1,…,"body":"…"},"fact":{"tool_name":"pay",…}}
//	{"type":"checkpoint","record":{…}}
//	{"type":"end","records":42,"checkpoints":1}
//
// A record's body is its exact text; fact repeats in short what it says, for
// those who read the file with other tools. A selection ([Filter]) leaves
// records out and keeps all checkpoints: each record can still be proved, only
// not that none is missing. Memory is constant, whatever the size.
package audit
