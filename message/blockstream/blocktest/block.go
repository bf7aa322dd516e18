package blocktest

import (
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/message/internal/object"
)

func readBlock(raw []byte) (blockstream.ContentBlock, error) {
	r := object.Read(raw)
	switch t := blockstream.BlockType(r.Text("type")); {
	case r.Err() != nil:
		return nil, r.Err()
	case t == blockstream.BlockThinking:
		return &blockstream.Thinking{Thinking: r.TextOr("thinking", ""), Parent: readParent(r)}, r.Err()
	case t == blockstream.BlockText:
		return &blockstream.Text{Text: r.TextOr("text", ""), Parent: readParent(r), IsPart: readBool(r, "is_part", false)}, r.Err()
	case t == blockstream.BlockToolUse:
		return readToolUse(r)
	case t == blockstream.BlockToolResult:
		b := &blockstream.ToolResult{
			ToolUseID: message.CallID(r.Text("tool_use_id")), Name: r.TextOr("name", ""),
			Status: blockstream.ResultStatus(r.Text("status")), Content: r.TextOr("content", ""), Parent: readParent(r),
		}
		if r.Has("artifact") {
			b.Artifact = r.Raw("artifact", "")
		}
		return b, r.Err()
	case t == blockstream.BlockFileProcessing:
		b := &blockstream.FileProcessing{Status: r.Text("status")}
		r.Items("files", func(raw []byte) error {
			f := object.Read(raw)
			b.Files = append(b.Files, blockstream.File{URL: f.Text("url")})
			return f.Err()
		})
		return b, r.Err()
	case t == blockstream.BlockApprovalRequest:
		b := &blockstream.ApprovalRequest{ApprovalKey: r.Text("approval_key")}
		r.May("actions", into(&b.Actions, readActions))
		r.May("review_configs", into(&b.ReviewConfigs, readReviewConfigs))
		return b, r.Err()
	case t == blockstream.BlockApprovalResult:
		return &blockstream.ApprovalResult{ApprovalKey: r.TextOr("approval_key", "")}, r.Err()
	default:
		return nil, strictjson.Wrong(strictjson.ErrType, "unknown block %.60q", string(t))
	}
}

func readParent(r *object.Reader) (p blockstream.Parent) {
	for name, dst := range map[string]**string{"subagent": &p.Subagent, "parent_tool_use_id": &p.ParentToolUseID} {
		if r.Has(name) {
			s := r.Text(name)
			*dst = &s
		}
	}
	return p
}

// readToolUse reads a call; if it names its id twice, the two must be the same.
func readToolUse(r *object.Reader) (blockstream.ContentBlock, error) {
	b := &blockstream.ToolUse{
		ID: message.CallID(r.Text("id")), Name: r.Text("name"), Label: r.TextOr("tool_content_message", ""),
		Input: r.Raw("input", "object"), Parent: readParent(r),
	}
	if other := r.TextOr("tool_use_id", string(b.ID)); other != string(b.ID) {
		r.Fail(strictjson.ErrType, "tool_use_id is %.60q, id %.60q", other, string(b.ID))
	}
	return b, r.Err()
}

func readActions(raw []byte) ([]blockstream.Action, error) {
	list := []blockstream.Action{}
	err := object.Each(raw, func(raw []byte) error {
		r := object.Read(raw)
		a := blockstream.Action{
			Name: r.Text("name"), Args: r.Raw("args", "object"), ToolUseID: message.CallID(r.TextOr("tool_use_id", "")),
			Description: r.TextOr("description", ""),
		}
		r.Items("suggested_rules", func(raw []byte) error {
			var rule message.PermissionRule
			err := rule.UnmarshalJSON(raw)
			a.SuggestedRules = append(a.SuggestedRules, rule)
			return err
		})
		list = append(list, a)
		return r.Err()
	})
	return list, err
}

func readReviewConfigs(raw []byte) ([]blockstream.ReviewConfig, error) {
	var list []blockstream.ReviewConfig
	err := object.Each(raw, func(raw []byte) error {
		r := object.Read(raw)
		list = append(list, blockstream.ReviewConfig{RequireApproval: readBool(r, "require_approval", true), Timeout: readSeconds(r, "timeout")})
		return r.Err()
	})
	return list, err
}

func readSeconds(r *object.Reader, name string) int64 {
	s := readInt(r, name)
	if s < 0 {
		r.Fail(strictjson.ErrType, "%s is negative", name)
	}
	return s
}
