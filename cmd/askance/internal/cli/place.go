package cli

import (
	"os"
	"os/user"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/message"
)

// place is where the calls are, and who looks at them.
type place struct {
	data, nats, creds, space, as string
	ca                           string // of the server at nats
	plain                        bool   // a login may go beyond this machine without TLS
}

// flags adds the flags of a command that talks to an engine.
func (p *place) flags(c *cobra.Command) {
	p.whereFlags(c)
	c.Flags().StringVar(&p.as, "as", userName(), "your name, under which answers are recorded")
}

// whereFlags adds those that say where the journal is.
func (p *place) whereFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.data, "data", "", "data folder (default "+defaultData("$HOME")+")")
	f.StringVar(&p.nats, "nats", "", "URL of a NATS server instead of the data folder's own")
	f.StringVar(&p.creds, "creds", "", "NATS credentials file")
	f.StringVar(&p.ca, "nats-ca", "", "certificates, in PEM, of those who may vouch for the NATS server (default those that the system knows)")
	f.BoolVar(&p.plain, "nats-insecure", false, "let logins and calls cross the network in plain text")
	f.StringVar(&p.space, "space", "default", "space: one journal, one set of keys and people")
}

// dir is the data folder.
func (p *place) dir() string {
	if p.data != "" {
		return p.data
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return defaultData(home)
}

func (p *place) spaceID() message.SpaceID { return message.SpaceID(p.space) }

// defaultData follows the XDG base directories.
func defaultData(home string) string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "askance")
	}
	if runtime.GOOS == "windows" {
		if dir := os.Getenv("LOCALAPPDATA"); dir != "" {
			return filepath.Join(dir, "askance")
		}
	}
	return filepath.Join(home, ".local", "share", "askance")
}

// userName is who runs the program, as the operating system says it.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return filepath.Base(u.Username) // on Windows the domain comes before it
	}
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	return "unknown"
}
