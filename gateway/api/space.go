package api

import (
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	operation "github.com/askance-dev/askance/message/api"
)

// spaceOps are what only HTTP has: it knows the credentials and the tools.
func spaceOps() []*op {
	return []*op{
		get(operation.HTTP{ID: "whoami", Path: "/v1/whoami", Tag: "space",
			Summary: "Who am I", Doc: "Who the credentials stand for."}, slices.Concat(asReader, []message.Role{message.RoleWorker}), whoami),
		get(operation.HTTP{ID: "listTools", Path: "/v1/tools", Tag: "space",
			Summary: "List tools", Doc: "The tools that the space knows, with the schemas of their arguments."}, asReader, tools),
		watchOp(),
	}
}

func whoami(a *ask) (WhoamiReply, error) {
	return WhoamiReply{Name: a.p.Name, Space: a.p.Space.ID, Roles: a.p.Roles, Auth: a.p.Auth, Expires: a.p.Expires}, nil
}

func tools(a *ask) (ToolsReply, error) {
	out := ToolsReply{Tools: make([]Tool, len(a.p.Space.Tools))}
	for i, t := range a.p.Space.Tools {
		out.Tools[i] = Tool{Name: t.Name, Description: t.Description, Placement: t.Placement, InputSchema: t.Schema.JSON()}
		if t.Placement == "" {
			out.Tools[i].Placement = message.PlaceLocal
		}
	}
	slices.SortFunc(out.Tools, func(x, y Tool) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}
