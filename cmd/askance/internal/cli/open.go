package cli

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func newOpenCommand(env *environment) *cobra.Command {
	var ad address
	var onlyPrint bool
	c := &cobra.Command{
		Use:        "open [CALL]",
		SuggestFor: []string{"web", "browse", "console"},
		Short:      "Open the web console in a browser",
		Long: `Starts the browser with the web console of the server, or with the page of a call. By
default this is the server of the data folder. For a server of --nats, pass --http-url
or store it in a context (askance context add --http-url).

$BROWSER names the browser. On a machine without one, the command fails and prints the
address; with --print it only prints the address.`,
		Example: `  askance open
  askance open call_42
  askance open --print`,
		ValidArgsFunction: env.completeCalls(),
		Args:              optional(oneCall(&ad)),
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := consoleURL(env)
			if err != nil {
				return err
			}
			if err := addCallPath(c.Context(), env, &ad, at); err != nil {
				return err
			}
			if !onlyPrint {
				if err := openBrowser(c.Context(), at); err != nil {
					return err
				}
			}
			return env.print(map[string]any{"url": at.String(), "opened": !onlyPrint}, at.String()+"\n")
		},
	}
	env.cfg.bindClient(c)
	env.cfg.bindAs(c, &env.cfg.HTTPURL, "URL of the web console (default that of the server of the data folder)")
	ad.flags(env, c)
	c.Flags().BoolVar(&onlyPrint, "print", false, "print the address, and do not start a browser")
	return c
}

// overSocket is the prefix of the address of a console that only has a Unix socket.
const overSocket = "unix:"

// isSocket reports whether a URL names a Unix socket by its absolute path.
func isSocket(server string) bool { return strings.HasPrefix(server, overSocket+"///") }

func consoleURL(env *environment) (*url.URL, error) {
	dir, text := node.Dir(env.cfg.dir()), cmp.Or(env.cfg.HTTPURL, env.cfg.Server)
	if text == "" && env.cfg.NATS == "" {
		var err error
		if text, err = localConsole(env); err != nil {
			return nil, err
		}
	}
	socket, local := strings.CutPrefix(text, overSocket)
	socket = strings.TrimPrefix(socket, "//")
	switch {
	case text != "" && local:
		return nil, &message.Error{Code: message.CodeUnavailable, Op: "open console", What: "the server of " + string(dir) + " shows its web console only at the Unix socket " + socket + ", which browsers cannot open", Hint: "start the server also with --http 127.0.0.1:8787, and log in with a token (askance token create); or put a proxy in front of the socket, and start the server with its address as --http-url"}
	case text != "":
	case env.cfg.NATS != "":
		return nil, &message.Error{Code: message.CodeNotFound, Op: "open console", What: "the address of the web console is not known", Hint: "pass --http-url, or store it with askance context add --http-url"}
	default:
		return nil, noConsole(dir, "use "+commandLineFor(env, "inbox"))
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usagef("%q is not the address of a web console: use one such as https://askance.example", text)
	}
	return u, nil
}

// noConsole is the error for a data folder without the address of a web console.
func noConsole(dir node.Dir, instead string) error {
	if embed.InUse(dir.Store()) {
		return &message.Error{Code: message.CodeUnavailable, Op: "open console", What: "the program on " + string(dir) + " has no web console", Hint: instead}
	}
	return noServer(dir, nil, startHint(string(dir))+"; if it runs with --http off, there is no web console")
}

// localConsole returns where the server of the data folder shows the space, or "".
func localConsole(env *environment) (string, error) {
	dir, space := node.Dir(env.cfg.dir()), env.cfg.spaceID()
	at, err := dir.ConsoleURL()
	if at != "" && dir.Files(space) != dir && !strings.HasPrefix(at, overSocket) {
		at = web.OfSpace(at, space)
	}
	return at, err
}

func addCallPath(ctx context.Context, env *environment, ad *address, at *url.URL) error {
	at.Path = strings.TrimSuffix(at.Path, "/") + "/"
	if ad.arg == "" {
		return nil
	}
	return env.withCall(ctx, toolcall.RoleAuditor, ad, func(_ *link, call *toolcall.Call) error {
		at.Path += "inbox/call"
		at.RawQuery = url.Values{"session": {string(call.Session)}, "reply": {string(call.Reply)}, "call": {string(call.Call)}}.Encode()
		return nil
	})
}

const consoleTimeout = 3 * time.Second

// openBrowser makes sure that a server is there, and starts the browser of this machine.
func openBrowser(ctx context.Context, at *url.URL) error {
	failed := func(what, hint string, err error) error {
		return &message.Error{Code: message.CodeUnavailable, Op: "open console", What: what, Hint: hint, Err: err}
	}
	dialer := net.Dialer{Timeout: consoleTimeout}
	host := at.Hostname()
	if strings.HasSuffix(host, ".localhost") { // browsers resolve these to this machine
		host = "localhost"
	}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, cmp.Or(at.Port(), map[string]string{"http": "80", "https": "443"}[at.Scheme])))
	if err != nil {
		return failed("the web console at "+at.String()+" cannot be reached", "start it with askance serve, or check the address", err)
	}
	_ = conn.Close() // it was only a try
	argv := browser()
	if argv == nil {
		hint := "open " + at.String() + " in a browser"
		if os.Getenv("SSH_CONNECTION") != "" {
			hint = fmt.Sprintf("on your own machine run ssh -L %[1]s:127.0.0.1:%[1]s HOST, and open %[2]s there", at.Port(), at)
		}
		return failed("no browser can be started on this machine", hint, nil)
	}
	if err := exec.CommandContext(ctx, argv[0], append(argv[1:], at.String())...).Run(); err != nil {
		return failed("the browser "+argv[0]+" did not start", "open "+at.String()+" in a browser", err)
	}
	return nil
}

// browser returns the command that opens an address; nil if this machine has none.
func browser() []string {
	if argv := strings.Fields(os.Getenv("BROWSER")); len(argv) > 0 {
		return argv
	}
	var argv []string
	switch runtime.GOOS {
	case "windows":
		argv = []string{"rundll32", "url.dll,FileProtocolHandler"}
	case "darwin":
		argv = []string{"open"}
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return nil
		}
		argv = []string{"xdg-open"}
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil
	}
	return argv
}
