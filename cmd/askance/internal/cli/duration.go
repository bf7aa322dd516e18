package cli

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/askance-dev/askance/permission"
)

// durationFlag is a duration that can be in days, as in rule files.
type durationFlag time.Duration

// String is empty for none, so that the help names no default.
func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return permission.FormatDuration(time.Duration(*d))
}

func (d *durationFlag) Set(text string) error {
	v, err := permission.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%.40q is not a duration; write for example 90s, 12h or 7d", text)
	}
	*d = durationFlag(v)
	return nil
}

// Type is what the help calls the value.
func (d *durationFlag) Type() string { return "duration" }

// durationVar adds a flag for a duration.
func durationVar(f *pflag.FlagSet, into *time.Duration, name string, value time.Duration, help string) {
	*into = value
	f.Var((*durationFlag)(into), name, help)
}
