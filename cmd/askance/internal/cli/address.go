package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const addressHelp = `Name a call by its id:

  askance approve call_42

Models choose call ids, so ids can repeat. If several open calls have the same id,
also name the session and the reply, in one argument or with flags:

  askance approve ticket-7/reply-1/call_42
  askance approve call_42 --session ticket-7 --reply reply-1

The first letters of an id are enough, at least four, if they are unique:

  askance approve call_4

askance never guesses: if several calls match, it lists them and does nothing. An exact
id wins over the beginning of another one, and an open call over a finished one.
askance list --all shows finished calls.

askance list -o name prints each address as one word, with %20 for a space in an id, %2F
for a slash and so on; commands read it.

With --yes, and with resolve, revoke and interrupt, you do not see the call before the
command acts, so the id must be complete and unambiguous: no other open id begins with it,
and no recent call of another session or reply has it. With --session and --reply, a
complete id always names one call.
`

type address struct {
	env            *environment
	arg            string
	session, reply string
	whole          bool // only a complete, unambiguous id is accepted, because no one confirms the call
}

func (ad *address) flags(env *environment, c *cobra.Command) {
	ad.env = env
	c.Flags().StringVar(&ad.session, "session", "", "session of the call")
	c.Flags().StringVar(&ad.reply, "reply", "", "reply of the call")
}

// AmbiguousError says that several calls have the given address.
type AmbiguousError struct {
	Address    string
	Prefix     bool   // their ids begin with Address
	Unseen     bool   // Address must be complete, because no one confirms the call
	List       string // the command that lists the ids
	Candidates []*toolcall.Call
}

const maxCandidates = 10

// Error lists the candidates in a form that commands accept.
func (e *AmbiguousError) Error() string {
	var b strings.Builder
	have := "have the id"
	if e.Prefix {
		have = "have ids that begin with"
	}
	switch n := len(e.Candidates); {
	case e.Unseen && n == 1:
		fmt.Fprintf(&b, "%s is only the beginning of an id; without a confirmation, give the complete id, which %s prints", e.Address, e.List)
	case e.Unseen:
		fmt.Fprintf(&b, "%s could mean %d calls; without a confirmation, pass --session and --reply, or name one of", e.Address, n)
	default:
		fmt.Fprintf(&b, "%d calls %s %s; name one of", n, have, e.Address)
	}
	for i, c := range e.Candidates {
		if i == maxCandidates {
			fmt.Fprintf(&b, "\n  … and %d more", len(e.Candidates)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s (%s, %s)", term.SafeLine(keyPath(c.Key)), c.Tool, c.Phase())
	}
	return b.String()
}

const completionTimeout = 2 * time.Second

func keyPath(k toolcall.Key) string {
	return string(k.Session) + "/" + string(k.Reply) + "/" + string(k.Call)
}

// keyName returns the address of a call as one word that neither a shell nor xargs splits or
// takes for a flag. Agents choose the ids: one with a space could name another call.
func keyName(k toolcall.Key) string {
	name := url.PathEscape(string(k.Session)) + "/" + url.PathEscape(string(k.Reply)) + "/" + url.PathEscape(string(k.Call))
	if strings.HasPrefix(name, "-") {
		return "%2D" + name[1:]
	}
	return name
}

// readKeyName returns the call that keyName names, or none.
func readKeyName(name string) (toolcall.Key, bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 || !strings.Contains(name, "%") {
		return toolcall.Key{}, false
	}
	for i, p := range parts {
		plain, err := url.PathUnescape(p)
		if err != nil {
			return toolcall.Key{}, false
		}
		parts[i] = plain
	}
	return toolcall.Key{Session: message.SessionID(parts[0]), Reply: message.ReplyID(parts[1]), Call: message.CallID(parts[2])}, true
}

// addressWord returns the address of a call as a shell reads it, or CALL instead of a flag.
func addressWord(k toolcall.Key) string {
	if word := term.SafeLine(keyPath(k)); !strings.HasPrefix(word, "-") {
		return spelling.ShellWord(word)
	}
	return "CALL"
}

// minPrefix is the length of the shortest prefix of an id that can name a call.
const minPrefix = 4

// find returns the call with the id: an open one if there is one, else a finished one.
// If no call has this id, it can be the prefix of another one.
func (ad *address) find(ctx context.Context, c engine.Client) (*toolcall.Call, error) {
	if ad.whole {
		if call, err := ad.findWhole(ctx, c); call != nil || err != nil {
			return call, err
		}
	}
	for _, prefix := range []bool{false, true} {
		for _, all := range []bool{false, true} {
			for _, r := range ad.requests() {
				r.All = all
				calls, err := listNamed(ctx, c, r, prefix)
				if err != nil {
					return nil, err
				}
				switch len(calls) {
				case 0:
				case 1:
					if ad.whole && prefix {
						return nil, usageError{&AmbiguousError{Address: ad.arg, Unseen: true, List: commandAgain(ad.env, "list -o name"), Candidates: calls}}
					}
					return calls[0], nil
				default:
					return nil, usageError{&AmbiguousError{Address: ad.arg, Prefix: prefix, Candidates: calls}}
				}
			}
		}
	}
	if len(ad.arg) < minPrefix {
		return nil, &message.Error{Code: message.CodeNotFound, Op: "find call", What: "no call has the id " + ad.arg, Hint: "give at least the first 4 letters of an id; for an archived call give SESSION/REPLY/CALL"}
	}
	return nil, &message.Error{Code: message.CodeNotFound, Op: "find call", What: "there is no call " + ad.arg, Hint: commandAgain(ad.env, "list --all") + " shows all calls; for an archived one give SESSION/REPLY/CALL"}
}

// findWhole returns the open call with exactly this id, or nil if there is none. It fails
// if the person could have meant another call, because agents choose the ids.
func (ad *address) findWhole(ctx context.Context, c engine.Client) (*toolcall.Call, error) {
	var named, others []*toolcall.Call
	for _, r := range ad.requests() {
		calls, err := listNamed(ctx, c, r, false)
		if err != nil {
			return nil, err
		}
		named = append(named, calls...)
		if r.Call != message.CallID(ad.arg) || len(calls) == 0 || ad.session != "" && ad.reply != "" {
			continue // session and reply make it unambiguous
		}
		longer, err := listNamed(ctx, c, r, true)
		if err != nil {
			return nil, err
		}
		r.All, r.Sort = true, toolcall.SortChanged // with the finished calls that an engine remembers
		recent, err := listNamed(ctx, c, r, false)
		if err != nil {
			return nil, err
		}
		others = append(longer, recent...)
	}
	if len(named) == 0 {
		return nil, nil
	}
	for _, o := range others {
		if !slices.ContainsFunc(named, func(c *toolcall.Call) bool { return c.Key == o.Key }) {
			named = append(named, o)
		}
	}
	if len(named) > 1 {
		return nil, usageError{&AmbiguousError{Address: ad.arg, Unseen: true, List: commandAgain(ad.env, "list -o name"), Candidates: named}}
	}
	return named[0], nil
}

// listNamed lists the calls of r whose id equals the id of r or, with prefix, begins with it.
func listNamed(ctx context.Context, c engine.Client, r toolcall.ListRequest, prefix bool) ([]*toolcall.Call, error) {
	if !prefix {
		return engine.ListAll(ctx, c, r, 0)
	}
	start := string(r.Call)
	r.Call, r.Words = "", start
	if len(start) < minPrefix {
		return nil, nil
	}
	calls, err := engine.ListAll(ctx, c, r, 0)
	return slices.DeleteFunc(calls, func(c *toolcall.Call) bool { return !strings.HasPrefix(string(c.Call), start) }), err
}

// requests returns the ways to read the address: as session/reply/call, or as an id in the
// whole space. Any part may contain slashes, so all splits are tried.
func (ad *address) requests() []toolcall.ListRequest {
	id := toolcall.ListRequest{Session: message.SessionID(ad.session), Reply: message.ReplyID(ad.reply), Call: message.CallID(ad.arg)}
	var out []toolcall.ListRequest
	parts := strings.Split(ad.arg, "/")
	if ad.session != "" || ad.reply != "" || len(parts) > maxCandidates { // too many slashes to try
		return []toolcall.ListRequest{id}
	}
	if k, ok := readKeyName(ad.arg); ok {
		out = append(out, toolcall.ListRequest{Session: k.Session, Reply: k.Reply, Call: k.Call})
	}
	for i := 1; i < len(parts)-1; i++ {
		for j := i + 1; j < len(parts); j++ {
			out = append(out, toolcall.ListRequest{
				Session: message.SessionID(strings.Join(parts[:i], "/")), Reply: message.ReplyID(strings.Join(parts[i:j], "/")),
				Call: message.CallID(strings.Join(parts[j:], "/")),
			})
		}
	}
	return append(out, id)
}

func oneCall(ad *address) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usagef("expected one call; askance list shows the open ones, and askance help addresses how to name one")
		}
		ad.arg = args[0]
		return nil
	}
}

// completeCallFlags completes the values of filters from the open calls.
func completeCallFlags(env *environment, c *cobra.Command, flags ...string) {
	of := map[string]func(*toolcall.Call) string{
		"tool": func(c *toolcall.Call) string { return c.Tool }, "agent": func(c *toolcall.Call) string { return c.Agent },
		"session": func(c *toolcall.Call) string { return string(c.Session) }, "reply": func(c *toolcall.Call) string { return string(c.Reply) }, "rule": (*toolcall.Call).DecidingRule, "policy-rule": (*toolcall.Call).DecidingRule,
	}
	for _, flag := range flags {
		_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completions(env, c, toolcall.ListRequest{}, of[flag], nil), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

// completions returns a word, and perhaps a description, for each call of a list. It
// asks only a running server, because a completion must not open a data folder.
func completions(env *environment, c *cobra.Command, r toolcall.ListRequest, word, about func(*toolcall.Call) string) []string {
	calls := askLive(env, c, func(ctx context.Context, l *link) ([]*toolcall.Call, error) { return engine.ListAll(ctx, l, r, 0) })
	var out []string
	for _, call := range calls {
		text := word(call)
		if text == "" || term.SafeLine(text) != text {
			continue // a shell would print it unescaped, and split it at a newline
		}
		if about != nil {
			text += "\t" + term.SafeLine(about(call))
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// completeNames completes the flags of a command and its sub-commands that take a name which the
// server or the data folder knows, unless the command has done so.
func completeNames(env *environment, c *cobra.Command) {
	for _, sub := range c.Commands() {
		completeNames(env, sub)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, done := c.GetFlagCompletionFunc(f.Name); done {
			return
		}
		switch f.Name {
		case "session", "reply", "agent":
			completeCallFlags(env, c, f.Name)
		case "tool":
			completeValue(env, c, f.Name, toolWords)
		case "to", "by", "approver":
			completeValue(env, c, f.Name, peopleWords)
		case "space":
			completeValue(env, c, f.Name, spaceWords)
		}
	})
}

// completeValue completes the value of a flag, and no files.
func completeValue(env *environment, c *cobra.Command, flag string, words func(*environment, *cobra.Command) []string) {
	_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return plainWords(words(env, c)), cobra.ShellCompDirectiveNoFileComp
	})
}

// plainWords leaves out words that a shell would print unescaped.
func plainWords(words []string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return term.SafeLine(w) != w })
}

// toolWords returns the tools of the server, or without one those of its last run.
func toolWords(env *environment, c *cobra.Command) []string {
	if live := askLive(env, c, func(ctx context.Context, l *link) ([]string, error) {
		info, err := l.Info(ctx)
		return info.Tools, err
	}); live != nil {
		return live
	}
	var names []string
	if last, err := readLastRun(string(env.files())); err == nil && last != nil && last.Tools != "" {
		tools, _ := toolfile.Load(last.Tools) // a file that cannot be read names none
		for _, t := range tools {
			names = append(names, t.Name)
		}
	}
	return names
}

func peopleWords(env *environment, c *cobra.Command) []string {
	return askLive(env, c, func(ctx context.Context, l *link) (names []string, err error) {
		load, err := l.Load(ctx, toolcall.LoadRequest{V: 1})
		for _, r := range load.People {
			names = append(names, r.Name)
		}
		return names, err
	})
}

// spaceWords returns the spaces of the data folder.
func spaceWords(env *environment, c *cobra.Command) (names []string) {
	if env.prepare(c) != nil {
		return nil
	}
	dir := node.Dir(env.cfg.dir())
	if last, err := readLastRun(string(dir)); err == nil && last != nil {
		names = append(names, string(last.spaceID()))
	}
	for _, s := range dir.Further() {
		names = append(names, string(s))
	}
	return names
}

func completeTools(env *environment) cobra.CompletionFunc {
	return completeFirst(func(c *cobra.Command) []string { return toolWords(env, c) })
}

func completeStandings(env *environment) cobra.CompletionFunc {
	return completeFirst(func(c *cobra.Command) []string {
		return askLive(env, c, func(ctx context.Context, l *link) ([]string, error) {
			reply, err := listStandingApprovals(ctx, l, toolcall.StandingApprovalsRequest{V: 1})
			var out []string
			for _, s := range reply.StandingApprovals {
				out = append(out, string(s.ID)+"\t"+asked.Allows(s))
			}
			return out, err
		})
	})
}

// askLive asks a running server; nil if none answers.
func askLive[T any](env *environment, c *cobra.Command, read func(context.Context, *link) ([]T, error)) []T {
	if env.prepare(c) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
	defer cancel()
	l, err := env.connectLive(ctx, toolcall.RoleAuditor)
	if err != nil {
		return nil
	}
	defer l.Close()
	all, err := read(ctx, l)
	if err != nil {
		return nil
	}
	return all
}

// completeSessions completes a session with open calls.
func completeSessions(env *environment) cobra.CompletionFunc {
	return completeFirst(func(c *cobra.Command) []string {
		return completions(env, c, toolcall.ListRequest{}, func(c *toolcall.Call) string { return string(c.Session) }, nil)
	})
}

// completeCalls completes the ids of open calls in the given states, or of all if none is given.
func (env *environment) completeCalls(states ...message.ToolCallState) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !strings.Contains(c.Use, "CALL...") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		describe := func(c *toolcall.Call) string {
			return c.Tool + " " + statusOf(c) + " " + term.Clip(c.Summary, wideWidth)
		}
		id := func(c *toolcall.Call) string {
			if slices.Contains(args, string(c.Call)) {
				return ""
			}
			return string(c.Call)
		}
		return completions(env, c, toolcall.ListRequest{States: states}, id, describe), cobra.ShellCompDirectiveNoFileComp
	}
}

// withCall connects, finds the call that ad names, and passes both to f.
func (env *environment) withCall(ctx context.Context, role toolcall.Role, ad *address, f func(*link, *toolcall.Call) error) error {
	l, err := env.connect(ctx, role)
	if err != nil {
		return err
	}
	defer l.Close()
	call, err := ad.find(ctx, l)
	if err != nil {
		return err
	}
	return f(l, call)
}
