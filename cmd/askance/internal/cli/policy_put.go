package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/suite"
	"github.com/askance-dev/askance/toolcall"
)

type putting struct {
	policyFiles
	remove []string
	dry    bool
}

func newPolicyPutCommand(env *environment) *cobra.Command {
	p := putting{policyFiles: policyFiles{cfg: &env.cfg}}
	c := &cobra.Command{
		Use:   "put [FILE...]",
		Short: "Check rule files and store them in the policy bucket of running engines",
		Long: `Stores rule files in the NATS key-value bucket of the space. Engines with
--policy-bucket use them at once. The key is the file name without the folder; an
existing file of that name is replaced.

The command first loads the policy that the bucket would have and runs its tests. It
stores nothing if the policy does not load or a test fails. It does not see rule files
that an engine reads from elsewhere. Several files come into force together: if the
command is cut off, running engines keep the last good policy until you repeat it.

It needs a running server, on the data folder or at --nats, and a login that can write
to the bucket, such as that of the engines. Exits with code 7 if a test fails.`,
		Example: `  askance policy put rules.yaml --tools tools.yaml --data ./data
  askance policy put rules/ --tools tools.yaml --dry-run
  askance policy put --delete old.yaml --tools tools.yaml --nats nats://nats.internal:4222 --creds engine.creds`,
		Args:              anyRuleFiles,
		ValidArgsFunction: completeRules,
		RunE:              func(c *cobra.Command, args []string) error { return runPut(c.Context(), env, p, args) },
	}
	p.toolsFlag(c)
	env.cfg.bindService(c)
	c.Flags().StringArrayVar(&p.remove, "delete", nil, "name of a file to delete from the bucket; may be repeated")
	c.Flags().BoolVar(&p.dry, "dry-run", false, "check only, store nothing")
	return c
}

func runPut(ctx context.Context, env *environment, p putting, args []string) error {
	if len(args)+len(p.remove) == 0 {
		return usagef("name rule files to store, or a file to remove with --delete")
	}
	opts, err := p.options()
	if err != nil {
		return err
	}
	var files []permission.File
	if len(args) > 0 {
		if files, err = permission.Paths(args...).Read(ctx); err != nil {
			return err
		}
	}
	url, err := env.findServer("start askance serve --policy-bucket, or name a server with --nats")
	if err != nil {
		return err
	}
	nc, err := bus.Connect(ctx, url, env.connectOptions(env.cfg.As, "askance policy put", url, engineLogin(env)))
	if err != nil {
		return err
	}
	defer nc.Close()
	bucket, err := journal.OpenPolicyBucket(ctx, nc, env.cfg.spaceID(), journal.PolicyBucketOptions{})
	if err != nil {
		return err
	}
	there, err := bucket.Read(ctx)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := bucket.Check(filepath.Base(f.Name), f.Data); err != nil {
			return err
		}
	}
	marked, err := p.continues(there, files)
	if err != nil {
		return err
	}
	next, err := p.after(there, files)
	if err != nil {
		return err
	}
	bundle, err := loadTested(ctx, next, opts)
	if err != nil {
		return err
	}
	if !p.dry {
		if err := p.store(ctx, bucket, marked, files); err != nil {
			return err
		}
	}
	if followed, err := bucket.Followed(ctx); err == nil && !followed { // a login may not list them
		env.notef("%s no engine reads this bucket now; engines with --policy-bucket do\n", env.err.Bad("warning:"))
	}
	return printPut(env, bucket.Name(), bundle, next, p.dry)
}

// after returns the files that the bucket will have, sorted by name.
func (p putting) after(there []journal.PolicyFile, files []permission.File) ([]permission.File, error) {
	next := map[string]permission.File{}
	for _, f := range there {
		next[f.Name] = permission.File{Name: f.Name, Data: f.Data}
	}
	for _, name := range p.remove {
		if _, ok := next[name]; !ok {
			return nil, &message.Error{Code: message.CodeNotFound, Op: "delete rule file", What: "the bucket has no file " + name, Hint: "name a file of the bucket: askance policy put --dry-run lists them"}
		}
		delete(next, name)
	}
	delete(next, unfinished)
	given := map[string]string{}
	for _, f := range files {
		name := filepath.Base(f.Name)
		if other, twice := given[name]; twice {
			return nil, usagef("%s and %s have the same name in the bucket; rename one of them", other, f.Name)
		}
		if f.Layer != "" && f.Layer != permission.LayerProject {
			return nil, usagef("%s: the bucket has only the layer %s; pass files of other layers to the engine with --policy", f.Name, permission.LayerProject)
		}
		if name == unfinished {
			return nil, usagef("rename %s: the bucket has a file of this name while files are stored", f.Name)
		}
		if slices.Contains(p.remove, name) {
			return nil, usagef("%s is named both to store and to delete; leave out one of them", name)
		}
		given[name], next[name] = f.Name, f
	}
	out := make([]permission.File, 0, len(next))
	for name, f := range next {
		f.Name = name
		out = append(out, f)
	}
	if len(out) == 0 {
		return nil, usagef("the bucket would have no rule file left, which engines refuse; store another file first")
	}
	slices.SortFunc(out, func(a, b permission.File) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func loadTested(ctx context.Context, files []permission.File, opts permission.Options) (*permission.Bundle, error) {
	policy, bundle, err := policySource{files: files, opts: opts}.load()
	if err != nil {
		return nil, err
	}
	if report := suite.Run(ctx, policy, bundle); report.Failed > 0 {
		return nil, findingsf("%d of %s failed, so nothing was stored; askance policy test shows them", report.Failed, asked.Count(len(report.Results), "test"))
	}
	return bundle, nil
}

// unfinished is a file that no engine accepts. While the bucket has it, the last good policy stays
// in force. Its lines are a text for people, an id, and the names that the command changes.
const unfinished = "unfinished-put.yaml"

// names returns the names in the bucket that the command changes.
func (p putting) names(files []permission.File) []string {
	out := slices.Clone(p.remove)
	for _, f := range files {
		out = append(out, filepath.Base(f.Name))
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == unfinished })
}

// continues reports whether another command is storing files, or was cut off, and refuses to leave
// out a file of it: engines would load what it stored without the rest.
func (p putting) continues(there []journal.PolicyFile, files []permission.File) (bool, error) {
	i := slices.IndexFunc(there, func(f journal.PolicyFile) bool { return f.Name == unfinished })
	if i < 0 || slices.Contains(p.remove, unfinished) {
		return i >= 0, nil
	}
	lines := strings.Split(strings.TrimSpace(string(there[i].Data)), "\n")
	others, own := lines[min(2, len(lines)):], p.names(files)
	if slices.ContainsFunc(others, func(name string) bool { return !slices.Contains(own, name) }) {
		return true, &message.Error{Code: message.CodeConflict, Op: "put policy", What: "another askance policy put of " + term.SafeLine(strings.Join(others, ", ")) + " is not finished", Hint: "wait for it, or repeat it if it was cut off; to bring only what it stored into force, delete its mark with --delete " + unfinished}
	}
	return true, nil
}

// store stores several changes in such a way that no engine loads only some of them.
func (p putting) store(ctx context.Context, bucket *journal.PolicyBucket, marked bool, files []permission.File) error {
	names := p.names(files)
	mark := []byte("askance policy put did not finish: repeat it\n" + rand.Text() + "\n" + strings.Join(names, "\n") + "\n")
	if marked = marked || len(names) > 1; marked {
		if _, err := bucket.Put(ctx, unfinished, mark); err != nil {
			return err
		}
	}
	for _, f := range files {
		if _, err := bucket.Put(ctx, filepath.Base(f.Name), f.Data); err != nil {
			return err
		}
	}
	for _, name := range p.remove {
		if name == unfinished {
			continue
		}
		if err := bucket.Delete(ctx, name); err != nil {
			return err
		}
	}
	if !marked {
		return nil
	}
	now, err := bucket.Read(ctx)
	if err == nil && slices.ContainsFunc(now, func(f journal.PolicyFile) bool { return f.Name == unfinished && bytes.Equal(f.Data, mark) }) { // else another command goes on
		err = bucket.Delete(ctx, unfinished)
	}
	return err
}

func printPut(env *environment, bucket string, b *permission.Bundle, files []permission.File, dry bool) error {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	verb := "holds"
	if dry {
		verb = "would hold"
	}
	var text strings.Builder
	for _, name := range names {
		text.WriteString(env.out.Name(term.SafeLine(name)) + "\n")
	}
	fmt.Fprintf(&text, "%s %s %s with %s: %s\n", bucket, verb, asked.Count(len(names), "file"), asked.Count(b.Rules(), "rule"), b.Hash())
	return env.print(map[string]any{"bucket": bucket, "files": names, "rules": b.Rules(), "bundle": b.Hash(), "stored": !dry}, text.String())
}

func newPolicyStatusCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the policy in force in a running engine, and how often each rule decided",
		Long: `Asks a running engine for the policy in force with its files and their digests, the time
when it came into force, the error of the last reload, the calls that each rule decided,
and the differences of the shadow policy. A rule that a reload does not change keeps its
counts.

Each engine counts its own decisions since it started. The first line names the engine.`,
		Example: `  askance policy status
  askance policy status --json
  askance policy status --nats nats://nats.internal:4222 --creds auditor.creds`,
		Args: noArgs,
		RunE: operation[struct{}, api.PolicyStatusReply]{role: toolcall.RoleAuditor, call: api.PolicyStatus.Call, request: always(&struct{}{}), text: policyStatusText}.run(env),
	}
	env.cfg.bindClient(c)
	return c
}

func policyStatusText(out *term.Out, _ struct{}, r api.PolicyStatusReply) string {
	var b strings.Builder
	s := newSheet(out, 8, fmt.Sprintf("%s in engine %s", asked.Count(r.Rules, "rule"), term.SafeLine(r.Engine)))
	s.row("policy", term.SafeLine(r.Bundle))
	if !r.Loaded.IsZero() {
		s.row("since", r.Loaded.Local().Format(time.DateTime))
	}
	for _, f := range r.Files {
		s.row("file", term.SafeLine(fmt.Sprintf("%s (%s) %s", f.Name, f.Layer, f.Digest)))
	}
	for _, f := range r.Ignored {
		s.row("note", term.SafeLine(f))
	}
	s.row("calls", fmt.Sprintf("%d decided, %d could not be evaluated", r.Calls, r.Failures))
	if r.Alarm != "" {
		s.row("error", out.Bad("the newest policy has been refused since "+r.AlarmSince.Local().Format(time.DateTime)))
		for line := range strings.Lines(r.Alarm) {
			s.row("", term.SafeLine(strings.TrimRight(line, "\n")))
		}
	}
	b.WriteString(s.String())
	rules := slices.Clone(r.ByRule)
	slices.SortStableFunc(rules, func(x, y api.PolicyRuleCount) int { return cmp.Compare(y.Decided, x.Decided) })
	rows := make([][]string, 0, len(rules))
	for _, c := range rules {
		behavior := "-"
		if c.Behavior != "" {
			behavior = explain.Behavior(out, c.Behavior)
		}
		rows = append(rows, []string{term.SafeLine(c.Rule), behavior, fmt.Sprint(c.Decided), fmt.Sprint(c.Watched), fmt.Sprint(c.Failed), c.Since.Local().Format(time.DateTime)})
	}
	if len(rows) > 0 {
		b.WriteString("\n" + tableText(out, []string{"RULE", "BEHAVIOR", "DECIDED", "WATCHED", "FAILED", "SINCE"}, rows))
	}
	if r.Shadow != nil {
		b.WriteString("\n" + shadowText(out, r.Shadow))
	}
	return b.String()
}

func shadowText(out *term.Out, s *api.ShadowPolicyStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Shadow policy %s, %s: a different decision for %d of %s\n", term.SafeLine(s.Bundle), asked.Count(s.Rules, "rule"), s.Differing, asked.Count(int(s.Compared), "call"))
	if s.Alarm != "" {
		b.WriteString(out.Bad("the newest shadow policy is refused: ") + term.SafeLine(s.Alarm) + "\n")
	}
	for _, d := range s.Differences {
		fmt.Fprintf(&b, "  %s of %s in %s: %s -> %s\n", asked.Count(int(d.Count), "call"), term.SafeLine(d.Tool), term.SafeLine(string(d.Mode)), shortVerdictText(d.Live), shortVerdictText(d.Shadow))
	}
	return b.String()
}

func shortVerdictText(v api.PolicyVerdict) string {
	by := v.Rule
	if by == "" {
		by = asked.Source(v.Step)
	}
	return term.SafeLine(fmt.Sprintf("%s (%s)", v.Behavior, by))
}

func newPolicyShowCommand(env *environment) *cobra.Command {
	r := api.PolicyTextRequest{V: 1}
	c := &cobra.Command{
		Use:   "show [RULE]",
		Short: "Show the text of the policy in force in a running engine, or of one rule",
		Long: `Prints the rule files as the engine loaded them, or one rule with its file and line.
--version shows an earlier policy: askance policy status lists the versions since the
start of the engine.`,
		Example: `  askance policy show
  askance policy show refund-limit
  askance policy show --version sha256:d99fa30f… --json`,
		Args: optional(wantArgs(1, "at most one rule")),
		ValidArgsFunction: completeFirst(func(c *cobra.Command) []string {
			return plainWords(askLive(env, c, func(ctx context.Context, l *link) (names []string, err error) {
				text, err := api.PolicyText.Call(ctx, l, api.PolicyTextRequest{V: 1, Bundle: r.Bundle})
				for _, rule := range text.Rules {
					names = append(names, rule.Rule)
				}
				return names, err
			}))
		}),
		PreRunE: func(_ *cobra.Command, args []string) error {
			r.Rule = onlyArg(args)
			return nil
		},
		RunE: operation[api.PolicyTextRequest, api.PolicyTextReply]{role: toolcall.RoleAuditor, call: api.PolicyText.Call, request: always(&r), text: policyText}.run(env),
	}
	env.cfg.bindClient(c)
	c.Flags().StringVar(&r.Bundle, "version", "", "hash of an earlier policy (default: the one in force)")
	completeValue(env, c, "version", versionWords)
	return c
}

// versionWords returns the hashes of the policies that the server can show.
func versionWords(env *environment, c *cobra.Command) []string {
	return askLive(env, c, func(ctx context.Context, l *link) (hashes []string, err error) {
		status, err := api.PolicyStatus.Call(ctx, l, struct{}{})
		for _, v := range status.Versions {
			hashes = append(hashes, v.Bundle)
		}
		return hashes, err
	})
}

func policyText(out *term.Out, r api.PolicyTextRequest, t api.PolicyTextReply) string {
	var b strings.Builder
	if r.Rule != "" {
		for _, rule := range t.Rules {
			fmt.Fprintf(&b, "%s\n%s\n", out.Dim(fmt.Sprintf("# %s:%d, in force since %s", term.SafeLine(rule.File), rule.Line, t.Loaded.Local().Format(time.DateTime))), term.Safe(rule.Text))
		}
		return b.String()
	}
	fmt.Fprintf(&b, "%s\n", out.Dim(fmt.Sprintf("# %s with %s, in force since %s", t.Bundle, asked.Count(len(t.Rules), "rule"), t.Loaded.Local().Format(time.DateTime))))
	for _, f := range t.Files {
		fmt.Fprintf(&b, "%s\n%s\n", out.Dim(fmt.Sprintf("# %s (layer %s)", term.SafeLine(f.Name), f.Layer)), strings.TrimRight(term.Safe(f.Text), "\n"))
		if f.Text == "" {
			b.WriteString(out.Dim("# too large to show in full; name a rule") + "\n")
		}
	}
	return b.String()
}
