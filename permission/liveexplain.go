package permission

import "context"

// Explain tells how the policy in force decides. See Bundle.Explain.
func (l *Live) Explain(ctx context.Context, req Request) *Explanation {
	return l.Bundle().Explain(ctx, req)
}
