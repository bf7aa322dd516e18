package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitzero"`
	Time     string `json:"time,omitzero"`
	Modified bool   `json:"modified,omitzero"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildInfo() build {
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func newVersionCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of askance",
		Example: "  askance version\n  askance version --json",
		Args:    noArgs,
		RunE:    func(*cobra.Command, []string) error { return printVersion(env) },
	}
}

func printVersion(env *environment) error {
	b := buildInfo()
	text := "askance " + b.Version
	if b.Revision != "" {
		text += " (" + b.Revision[:min(12, len(b.Revision))]
		if b.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return env.print(b, fmt.Sprintf("%s, %s, %s\n", text, b.Go, b.Platform))
}
