package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

type directoryFunc func(ctx context.Context) ([]string, error)

func (f directoryFunc) Groups(ctx context.Context, _ toolcall.Principal) (engine.Membership, error) {
	g, err := f(ctx)
	return engine.Membership{Groups: g, Source: "func"}, err
}

// A directory that fails in any way yields no groups.
func TestMembership(t *testing.T) {
	for _, tc := range []struct {
		name string
		dir  engine.Directory
		want []string
		err  bool
	}{
		{"none", nil, nil, false},
		{"static", engine.StaticDirectory{"ann": {"ops", "finance", "ops"}}, []string{"finance", "ops"}, false},
		{"a stranger", engine.StaticDirectory{"bob": {"ops"}}, nil, false},
		{"an empty name", directoryFunc(func(context.Context) ([]string, error) { return []string{"", "ops"}, nil }), []string{"ops"}, false},
		{"an error together with groups", directoryFunc(func(context.Context) ([]string, error) { return []string{"ops"}, errors.New("down") }), nil, true},
		{"groups that come too late", directoryFunc(func(ctx context.Context) ([]string, error) { <-ctx.Done(); return []string{"ops"}, nil }), nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy, err := permission.Compile(permission.Policy{}, permission.Options{})
				if err != nil {
					t.Fatal(err)
				}
				var opts []engine.Option
				if tc.dir != nil {
					opts = append(opts, engine.WithDirectory(tc.dir))
				}
				e, err := engine.New("default", engine.NewMemory(), policy, nil, opts...)
				if err != nil {
					t.Fatal(err)
				}
				m, err := e.Membership(t.Context(), toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"})
				if !slices.Equal(m.Groups, tc.want) || (err != nil) != tc.err {
					t.Errorf("Membership() = %v, %v, want %v", m, err, tc.want)
				}
			})
		})
	}
	if _, err := engine.New("default", engine.NewMemory(), nil, nil, engine.WithDirectory(nil)); err == nil {
		t.Error("a nil directory was accepted")
	}
}
