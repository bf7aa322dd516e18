package api

import (
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
)

func spaceOps(keep *kept) []*op {
	return []*op{
		get(op{id: "whoami", path: "/v1/whoami", tag: "space", roles: slices.Concat(asReader, []message.Role{message.RoleWorker}),
			summary: "Who am I", doc: "Who the credentials stand for."}, whoami),
		get(op{id: "info", path: "/v1/info", tag: "space", roles: slices.Concat(asReader, []message.Role{message.RoleWorker}),
			summary: "The engine", doc: "Which engine answers, how durable its writes are, and the policy in force."}, func(a *ask) (message.InfoReply, error) { return a.c.Info(a.ctx()) }),
		get(op{id: "listTools", path: "/v1/tools", tag: "space", roles: asReader,
			summary: "List tools", doc: "The tools that the space knows, with the schemas of their arguments."}, tools),
		get(op{id: "reviewerLoad", path: "/v1/load", tag: "space", roles: asOverseer,
			summary: "Reviewers' load", doc: "What each approver and group has to do and has done."}, func(a *ask) (message.LoadReply, error) { return a.c.Load(a.ctx(), message.LoadRequest{}) }),
		get(op{id: "listRules", path: "/v1/leases", tag: "leases", roles: asOverseer, params: []param{
			{Name: "tool_name", Type: "string", Doc: "Only those for this tool."},
			{Name: "all", Type: "boolean", Doc: "Ended ones, too."},
			{Name: "after", Type: "string", Doc: "The cursor: next of the page before."},
			{Name: "limit", Type: "integer", Doc: "The size of the page; default and maximum 200."},
		}, summary: "List remembered rules", doc: "What approvers let remember with an answer."}, leases),
		get(op{id: "showRule", path: "/v1/leases/{lease_id}", tag: "leases", roles: asOverseer,
			summary: "Show a remembered rule", doc: "With the last hundred calls for which it answered."}, showLease),
		post[ReasonBody](op{id: "revokeRule", path: "/v1/leases/{lease_id}/revoke", tag: "leases", roles: asRevoker,
			summary: "Revoke a remembered rule", doc: "At once: calls that it has allowed and that have not begun are taken back."}, keep, revokeLease),
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

func leases(a *ask) (message.LeasesReply, error) {
	return a.c.Leases(a.ctx(), message.LeasesRequest{Tool: a.q.text("tool_name"), All: a.q.is("all"), After: message.LeaseID(a.q.text("after")), Limit: a.q.count("limit")})
}

func (a *ask) lease() message.LeaseID { return message.LeaseID(a.r.PathValue("lease_id")) }

func showLease(a *ask) (message.ShowLeaseReply, error) {
	return a.c.ShowLease(a.ctx(), message.ShowLeaseRequest{ID: a.lease()})
}

func revokeLease(a *ask, in ReasonBody) (*message.Lease, error) {
	return a.c.RevokeLease(a.ctx(), message.RevokeLeaseRequest{ID: a.lease(), Reason: in.Reason})
}
