package cli

import (
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/audit"
	"github.com/askance-dev/askance/message"
)

func newAuditExportCommand(env *environment) *cobra.Command {
	var e audit.Exporting
	var format, output, since, until string
	c := &cobra.Command{
		Use:   "export",
		Short: "Write the journal as JSON Lines, which can be verified, or as CSV",
		Long: `Writes stored records and checkpoints as JSON Lines (jsonl): what askance audit
verify FILE takes, on any machine. Each record has its exact body, and beside it in
short what it says. csv has that only, one line a record, for spreadsheets: text that
a spreadsheet could take for a formula has an apostrophe before it.

With a filter each record can still be proved to be genuine, but not that none is
missing. The conditions are joined by and; --state and --cause may be repeated and
are then joined by or. Streamed events have a session, a reply and a time only.

Memory stays constant, whatever the size. A file is replaced once it is complete.`,
		Example: `  askance audit export --output journal.jsonl
  askance audit export --session ticket-7 --approver ann
  askance audit export --format csv --tool pay --cause approve --since 2026-03-01T00:00:00Z > approved.csv`,
		Args: func(_ *cobra.Command, args []string) error {
			var err error
			if e.Filter.Since, err = parseTime("since", since); err == nil {
				e.Filter.Until, err = parseTime("until", until)
			}
			if err != nil {
				return err
			}
			for _, s := range e.Filter.States {
				if !message.ToolCallState(s).Valid() {
					return usagef("--state %q: use pending, asking, allowed, submitted or finished", s)
				}
			}
			switch format {
			case "jsonl", "csv":
				e.CSV = format == "csv"
				return noArgs(nil, args)
			}
			return usagef("--format is %q, use jsonl or csv", format)
		},
		RunE: func(c *cobra.Command, _ []string) error {
			s, done, err := openAuditSource(c.Context(), env, nil)
			if err != nil {
				return err
			}
			defer done()
			progress, end := newAuditBar(env, "export", s.Last)
			e.Progress = progress
			n := uint64(0)
			err = env.writeOutput(output, func(w io.Writer) error {
				n, err = audit.Export(w, s, e)
				return err
			})
			end()
			if err == nil && output != "" {
				env.notef("%s written to %s\n", count(n, "record", "records"), output)
			}
			return err
		},
	}
	env.at.flags(c)
	f := c.Flags()
	f.StringVar(&format, "format", "jsonl", "jsonl or csv")
	f.StringVar(&output, "output", "", "file to write (default standard output)")
	f.StringVar(&e.Filter.Session, "session", "", "only this session")
	f.StringVar(&e.Filter.Reply, "reply", "", "only this reply")
	f.StringVar(&e.Filter.Call, "call", "", "only this call")
	f.StringVar(&e.Filter.Tool, "tool", "", "only calls of this tool")
	f.StringVar(&e.Filter.Approver, "approver", "", "only records of calls that this person had voted on")
	f.StringArrayVar(&e.Filter.States, "state", nil, "only records that left their call in this state; may be repeated")
	f.StringArrayVar(&e.Filter.Causes, "cause", nil, "only records with this step, such as approve or result; may be repeated")
	f.StringVar(&since, "since", "", "only records stored at this time (RFC 3339) or later")
	f.StringVar(&until, "until", "", "only records stored before this time (RFC 3339)")
	f.BoolVar(&e.Filter.NoEvents, "no-events", false, "leave out streamed events")
	return c
}

// parseTime reads the time of a flag.
func parseTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, usagef("--%s is %q, want a time like 2026-03-01T12:00:00Z", flag, text)
	}
	return t, nil
}

// writeOutput has write fill a file, which appears when it is complete, or the
// standard output if no file is named.
func (env *environment) writeOutput(path string, write func(io.Writer) error) (err error) {
	if path == "" {
		return write(env.out)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".askance-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // nobody needs half a file
		}
	}()
	if err = write(f); err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
