package agui

import "github.com/askance-dev/askance/message"

// PatchOpType is the discriminator of an operation.
type PatchOpType string

// The operations of JSON Patch.
const (
	PatchAdd     PatchOpType = "add"
	PatchRemove  PatchOpType = "remove"
	PatchReplace PatchOpType = "replace"
	PatchMove    PatchOpType = "move"
	PatchCopy    PatchOpType = "copy"
	PatchTest    PatchOpType = "test"
)

var patchOps = []PatchOpType{PatchAdd, PatchRemove, PatchReplace, PatchMove, PatchCopy, PatchTest}

// PatchOp is one operation of a JSON Patch (RFC 6902). It is checked for its
// form; whether it applies shows where it is applied.
type PatchOp struct {
	Op    PatchOpType
	Path  string          // a JSON pointer
	From  string          // of move and copy: a JSON pointer
	Value message.RawJSON // of add, replace and test: any JSON, null too
}

// fields takes members that the operation does not have for read: RFC 6902 says
// to ignore them.
func (p *PatchOp) fields(s *shape) {
	variant(s, "op", &p.Op, patchOps)
	s.pointer("path", &p.Path)
	switch p.Op {
	case PatchAdd, PatchReplace, PatchTest:
		s.raw("value", &p.Value)
	case PatchMove, PatchCopy:
		s.pointer("from", &p.From)
	case PatchRemove:
	}
	for i := range s.seen {
		s.seen[i] = true
	}
}
