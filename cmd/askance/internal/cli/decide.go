package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// responding is shared by approve, edit, reject, respond and delegate, which find calls,
// show them, and send responses that name the digests of what they showed.
type responding struct {
	env    *environment
	kind   responseKind
	ad     address
	picks  picks
	digest string // of --digest: binds the response to what the person reviewed earlier
	yes    bool

	memory                            memory
	sign                              signing
	signer                            *signer
	feedback, input, output, to, note string
	written                           string // the file of the editor
}

// responseKind is what differs between the commands that respond.
type responseKind struct {
	verb  string            // begins the question for confirmation
	many  bool              // takes several calls
	sends toolcall.Response // only its kind; an edit also has an input
	flags func(*responding, *pflag.FlagSet)
	// check reads and checks the values of flags before anything is shown or sent.
	check func(*responding) error
	build func(*responding, context.Context, *toolcall.Call) (toolcall.Response, error)
}

// newRespondCommand completes a command that responds to approval requests.
func newRespondCommand(env *environment, c *cobra.Command, kind responseKind) *cobra.Command {
	d := &responding{env: env, kind: kind, sign: signing{cfg: &env.cfg}}
	c.Args, c.ValidArgsFunction = oneCall(&d.ad), env.completeCalls(message.ToolCallAsking)
	bindDeciding(env, c)
	d.memory.cmd, d.sign.cmd = c, c
	d.ad.flags(env, c)
	c.Flags().StringVar(&d.digest, "digest", "", "respond only to the approval request with this digest, as askance show or list --json printed it")
	c.Flags().BoolVarP(&d.yes, "yes", "y", false, "do not ask for confirmation: respond to the current approval request")
	if kind.many {
		d.picks.bind(c, env)
	}
	if kind.flags != nil {
		kind.flags(d, c.Flags())
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := d.checkFlags(); err != nil {
			return err
		}
		d.ad.whole = d.yes && d.digest == ""
		if !d.isConfirmed() && !env.isInteractive() {
			return d.mustConfirm(c.Context(), args)
		}
		l, err := env.connect(c.Context(), toolcall.RoleApprover)
		if err != nil {
			return err
		}
		defer l.Close()
		if kind.many && (len(args) > 1 || d.picks.any()) {
			return d.respondToMany(c.Context(), l, args)
		}
		d.ad.arg = args[0]
		return d.respond(c.Context(), l)
	}
	if kind.many {
		c.Args = func(_ *cobra.Command, args []string) error { return d.picks.check(d, args) }
	}
	return c
}

// checkFlags refuses wrong flags before the command connects.
func (d *responding) checkFlags() error {
	if err := d.memory.check(time.Now()); err != nil || d.kind.check == nil {
		return err
	}
	return d.kind.check(d)
}

// mustConfirm returns the error for a script that does not confirm. If its only call is
// finished, the error says that instead, because a confirmation would not help.
func (d *responding) mustConfirm(ctx context.Context, args []string) error {
	missing := usagef("not a terminal: pass --yes, or --digest to respond to exactly what you reviewed")
	if len(args) != 1 {
		return missing
	}
	l, err := d.env.connect(ctx, toolcall.RoleApprover)
	if err != nil {
		return missing
	}
	defer l.Close()
	d.ad.arg = args[0]
	if call, err := d.ad.find(ctx, l); err == nil && !call.Open() {
		return mustAsk(d.env, call)
	}
	return missing
}

// isConfirmed reports whether a flag confirms the response.
func (d *responding) isConfirmed() bool { return d.digest != "" || d.yes }

// respond finds the call, asks for confirmation unless a flag confirms, and sends the response.
func (d *responding) respond(ctx context.Context, l *link) (err error) {
	defer func() { d.keepWritten(err) }()
	env := d.env
	call, err := d.ad.find(ctx, l)
	if err != nil {
		return err
	}
	if err := d.mustAsk(call); err != nil {
		return err
	}
	response, err := d.response(ctx, call)
	if err != nil {
		return err
	}
	response.Digest = cmp.Or(d.digest, response.Digest)
	if !d.isConfirmed() {
		env.notef("%s", callText(env.err, call))
	}
	if response.Input != nil && !env.json {
		env.notef("%s", diffText(env.err, asked.Changes(call.Input, *response.Input)))
	}
	if !d.isConfirmed() {
		if err := d.confirm(ctx, fmt.Sprintf("%s %s %s", d.kind.verb, call.Tool, call.Call)); err != nil {
			return err
		}
	}
	after, err := l.SubmitResponse(ctx, response)
	if err != nil {
		return err
	}
	return env.print(after, outcomeText(env.out, after)+"\n")
}

// response makes the response to the current request of the call.
func (d *responding) response(ctx context.Context, call *toolcall.Call) (toolcall.Response, error) {
	r, err := d.kind.build(d, ctx, call)
	r.V, r.Key, r.Digest = 1, call.Key, call.Digest
	return r, err
}

// confirm asks the person, and names the context, because it decides which server acts.
func (d *responding) confirm(ctx context.Context, what string) error {
	if d.env.context != "" {
		what += " in context " + d.env.context
	}
	return d.env.confirm(ctx, what+"?", errors.New("canceled: no response was sent, the approval request is still open"))
}

// mustAsk refuses a call that the person cannot respond to.
func (d *responding) mustAsk(c *toolcall.Call) error {
	if err := mustAsk(d.env, c); err != nil {
		return err
	}
	if bad := asked.Forged(c, c.Digest); bad != "" {
		return &message.Error{Code: message.CodeDigest, Op: "submit_response", Call: toolcall.ErrorCall(c), What: bad}
	}
	if v, voted := c.VoteOf(d.env.cfg.As); voted && v.Kind == d.kind.sends.Kind {
		return nil // sent again: the engine distinguishes a repetition from a change
	}
	bad := asked.Obstacle(c, d.env.cfg.As, d.kind.sends)
	if bad == "" {
		return nil
	}
	return &message.Error{Code: message.CodeForbidden, Op: "submit_response", Call: toolcall.ErrorCall(c), What: fmt.Sprintf("call %s: %s", c.Call, strings.ToLower(bad[:1])+strings.TrimSuffix(bad[1:], ".")), Hint: commandAgain(d.env, "show "+addressWord(c.Key)) + " lists who has responded and who can"}
}

func mustAsk(env *environment, c *toolcall.Call) error {
	if c.State == message.ToolCallAsking {
		return nil
	}
	e := &message.Error{Code: message.CodeState, Op: "submit_response", Call: toolcall.ErrorCall(c), What: fmt.Sprintf("the call %s is %s and does not wait for approval", c.Call, statusOf(c)), Hint: commandAgain(env, "show "+addressWord(c.Key)) + " prints its history"}
	if !c.Open() {
		e.Code, e.What = message.CodeFinished, fmt.Sprintf("the call %s is finished (%s)", c.Call, waitsFor(c))
		if v, ok := toolcall.EndingVote(c); ok {
			e.What += fmt.Sprintf("; %s responded first: %s", asked.Who(v.By), v.Kind)
		}
	}
	return e
}

func outcomeLine[Req any](out *term.Out, _ Req, after *toolcall.Call) string {
	return outcomeText(out, after) + "\n"
}

func outcomeText(out *term.Out, c *toolcall.Call) string {
	head := out.Name(term.SafeLine(string(c.Call))) + " is " + phasePaint(out, c)(string(c.Phase()))
	if c.State == message.ToolCallAsking {
		return head + ": " + stillAsksText(c)
	}
	text := head + ": " + waitsFor(c)
	if !c.Open() { // the standing approvals may have ended, too
		return text
	}
	for _, s := range c.StandingApprovals {
		text += "; standing approval " + term.SafeLine(string(s.ID)) + ": " + term.SafeLine(s.Text())
	}
	return text
}

func newApproveCommand(env *environment) *cobra.Command {
	return newRespondCommand(env, &cobra.Command{
		Use:        "approve CALL... | approve FILTER...",
		SuggestFor: []string{"accept", "allow", "ok", "yes", "confirm", "grant"},
		Short:      "Approve calls with exactly these arguments",
		Long: `Approves calls as they are. The response names the digest of the approval request, so
exactly what you reviewed runs: if the call was edited or requested again in the
meantime, the engine refuses the response with exit code 3.

--remember creates a standing approval: later calls that match the offered rules run
without a request, in the same session, unless a rule asks about them. Other flags limit
it: --rule narrows the rules, --uses and --budget limit later calls, and --until sets
when it ends. Only a policy rule with remember permits a wider scope, or that the
standing approval answers the later requests of this rule. A call with hidden arguments
cannot create one. askance standing lists and revokes standing approvals.

` + severalHelp,
		Example: `  askance approve call_42                       # shows the call and asks for confirmation
  askance approve call_42 --yes
  askance approve call_42 --digest sha256:9f2…  # for scripts: what was reviewed before
  askance approve call_42 --remember            # and accept the offered rules
  askance approve call_42 --sign-key ann.key    # if the rule requires your signature
  askance approve call_42 --remember --scope session --until 2h --uses 3
  askance approve call_42 --remember --rule "git push origin:*"
  askance approve call_42 --remember --budget args.cents=10000
  askance approve call_42 call_43 call_44       # one confirmation lists all
  askance approve --tool search --agent research-bot`,
	}, responseKind{
		verb: "Approve", many: true, sends: toolcall.Response{Kind: toolcall.ResponseApprove},
		flags: func(d *responding, _ *pflag.FlagSet) {
			d.memory.flags()
			d.sign.flags()
		},
		check: func(d *responding) (err error) {
			d.signer, err = d.sign.load()
			return err
		},
		build: func(d *responding, _ context.Context, call *toolcall.Call) (toolcall.Response, error) {
			response := toolcall.Response{Kind: toolcall.ResponseApprove}
			if d.signer != nil {
				var err error
				if response.Signature, err = d.signer.sign(call, time.Now()); err != nil {
					return response, err
				}
			}
			d.memory.into(&response, call)
			return response, nil
		},
	})
}

func newEditCommand(env *environment) *cobra.Command {
	return newRespondCommand(env, &cobra.Command{
		Use:   "edit CALL",
		Short: "Approve a call with changed arguments",
		Long: `Approves a call with changed arguments. An edit is a new proposal by you: it must
match the tool's schema, and the policy decides about it again, so the policy can
deny it or require another approval. Without --args your editor ($VISUAL, $EDITOR)
opens.

--remember and its flags work as in askance approve, for the edited call.`,
		Example: `  askance edit call_42
  askance edit call_42 --args '{"order_id":"A-1042","amount_cents":4900}' --yes
  askance edit call_42 --args @refund.json --digest sha256:9f2…
  askance edit call_42 --args @refund.json --remember --uses 3`,
		PreRunE: func(c *cobra.Command, _ []string) error {
			if input, err := c.Flags().GetString("args"); (err != nil || input == "") && !env.isInteractive() {
				return usagef("not a terminal, so no editor can open: pass the new arguments with --args")
			}
			return nil
		},
	}, responseKind{
		verb: "Approve the edited call", sends: toolcall.Response{Kind: toolcall.ResponseApprove, Input: new(string)},
		flags: func(d *responding, f *pflag.FlagSet) {
			d.memory.flags()
			f.StringVar(&d.input, "args", "", "new arguments: a JSON object, @FILE, or - for standard input")
		},
		check: func(d *responding) (err error) {
			if d.input != "" {
				d.input, err = checkInput(env.readText("--args", d.input, toolcall.MaxInputBytes))
			}
			return err
		},
		build: func(d *responding, ctx context.Context, call *toolcall.Call) (toolcall.Response, error) {
			text := d.input
			if text == "" {
				var err error
				text, d.written, err = openEditor(ctx, asked.Editable(call.Input))
				if text, err = checkInput(text, err); err != nil {
					return toolcall.Response{}, err
				}
			}
			response := toolcall.Response{Kind: toolcall.ResponseApprove, Input: &text}
			d.memory.into(&response, call)
			return response, nil
		},
	})
}

func newRejectCommand(env *environment) *cobra.Command {
	return newRespondCommand(env, &cobra.Command{
		Use:        "reject CALL... | reject FILTER...",
		SuggestFor: []string{"deny", "refuse", "decline", "no"},
		Short:      "Reject calls and tell the model why",
		Long:       "Rejects calls. The model gets an error with your feedback.\n\n" + severalHelp,
		Example: `  askance reject call_42 --feedback "refund only the shipping"
  askance reject call_42 call_43 --yes
  askance reject --session ticket-7 --feedback "the ticket is closed"`,
	}, responseKind{
		verb: "Reject", many: true, sends: toolcall.Response{Kind: toolcall.ResponseReject},
		flags: func(d *responding, f *pflag.FlagSet) {
			f.StringVar(&d.feedback, "feedback", "", "feedback for the model, such as the reason")
		},
		build: func(d *responding, _ context.Context, _ *toolcall.Call) (toolcall.Response, error) {
			return toolcall.Response{Kind: toolcall.ResponseReject, Feedback: d.feedback}, nil
		},
	})
}

func newResultCommand(env *environment) *cobra.Command {
	return newRespondCommand(env, &cobra.Command{
		Use:   "respond CALL --output TEXT",
		Short: "Supply the tool's result yourself; nothing runs",
		Example: `  askance respond call_42 --output "done manually, ticket 17"
  askance respond call_42 --output @result.txt --yes
  date | askance respond call_42 --output - --yes`,
		PreRunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("output") {
				return usagef("--output is missing: pass the text that becomes the tool's result")
			}
			return nil
		},
	}, responseKind{
		verb: "Supply the result of", sends: toolcall.Response{Kind: toolcall.ResponseRespond},
		flags: func(d *responding, f *pflag.FlagSet) {
			f.StringVar(&d.output, "output", "", "result: a text, @FILE, or - for standard input")
		},
		check: func(d *responding) (err error) {
			d.output, err = env.readText("--output", d.output, toolcall.MaxOutputBytes)
			return err
		},
		build: func(d *responding, _ context.Context, _ *toolcall.Call) (toolcall.Response, error) {
			return toolcall.Response{Kind: toolcall.ResponseRespond, Output: strings.TrimRight(d.output, "\n")}, nil
		},
	})
}

func newDelegateCommand(env *environment) *cobra.Command {
	c := newRespondCommand(env, &cobra.Command{
		Use:        "delegate CALL [--to NAME]",
		SuggestFor: []string{"skip", "forward", "assign"},
		Short:      "Delegate an approval request to another person, or skip it",
		Long: `With --to, delegates an approval request to one person; without --to, you skip it and
leave it to the other approvers. The request stays open and its deadline does not
change. You cannot approve it afterwards, only reject it; your earlier approval is
revoked. Only people who could respond before can respond now.`,
		Example: `  askance delegate call_42 --to bob --note "you know the customer"
  askance delegate call_42 --note "I am related to the payee" --yes`,
	}, responseKind{
		verb: "Delegate", sends: toolcall.Response{Kind: toolcall.ResponseDelegate},
		flags: func(d *responding, f *pflag.FlagSet) {
			f.StringVar(&d.to, "to", "", "person who should respond; without it you skip the request")
			f.StringVar(&d.note, "note", "", "note for the next approver")
		},
		check: func(d *responding) error {
			if d.to == "" {
				d.kind.sends.Kind = toolcall.ResponseSkip
			}
			return nil
		},
		build: func(d *responding, _ context.Context, _ *toolcall.Call) (toolcall.Response, error) {
			return toolcall.Response{Kind: d.kind.sends.Kind, To: d.to, Note: d.note}, nil
		},
	})
	return c
}

// checkInput checks new arguments that were read.
func checkInput(text string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(text)
	if err := asked.CheckInput(text); err != nil {
		return "", usagef("%w", err)
	}
	return text, nil
}

// openEditor returns what the person makes of the text. If path is not "", that file has it: the
// caller removes its folder.
func openEditor(ctx context.Context, text string) (edited, path string, err error) {
	dir, err := os.MkdirTemp("", "askance-edit-")
	if err != nil {
		return "", "", fmt.Errorf("edit: %w", err)
	}
	defer func() {
		if path == "" {
			_ = os.RemoveAll(dir) // the system cleans its temporary folder
		}
	}()
	file := filepath.Join(dir, "input.json")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		return "", "", fmt.Errorf("edit: %w", err)
	}
	argv := editor()
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], file)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", "", fmt.Errorf("edit: the editor %s: %w", argv[0], err)
	}
	b, err := textfile.Read("edit", file, toolcall.MaxInputBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	if err == nil && string(b) == text+"\n" {
		return "", "", errors.New("edit: the arguments did not change, so no response was sent; askance approve approves them as they are")
	}
	return string(b), file, err
}

// keepWritten keeps what the person wrote in the editor if no response was accepted.
func (d *responding) keepWritten(err error) {
	switch {
	case d.written == "":
	case err == nil:
		_ = os.RemoveAll(filepath.Dir(d.written)) // the system cleans its temporary folder
	default:
		d.env.notef("Your text is in %s: correct it and pass --args @%[1]s.\n", spelling.ShellWord(d.written))
	}
}

func editor() []string {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if argv := strings.Fields(os.Getenv(name)); len(argv) > 0 {
			return argv
		}
	}
	return []string{"vi"}
}

func diffText(on *term.Out, lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		paint := on.Dim
		switch l[0] {
		case '-':
			paint = on.Bad
		case '+':
			paint = on.Good
		}
		b.WriteString(paint(term.Safe(l)) + "\n")
	}
	return b.String()
}
