package cli

import "github.com/spf13/cobra"

// helpTopics are pages that belong to no command.
func helpTopics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodeHelp()},
		{Use: "settings", Short: "Flags, ASKANCE_ variables and askance.yaml", Long: settingsHelp()},
		{Use: "addresses", Short: "How commands name a call", Long: addressHelp},
	}
}
